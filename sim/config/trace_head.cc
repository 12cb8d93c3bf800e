#include "sim/config/trace_head.h"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "sim/workload/trace_reader.h"
#include "sim/workload/workload.pb.h"

namespace interleave::sim {
namespace {

// Longer than any header line.
constexpr size_t kHeadBytes = size_t{1} << 16;

absl::StatusOr<std::string> ReadHead(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen(path.c_str(), "rb"), &std::fclose);
  std::string head(kHeadBytes, '\0');
  size_t size = 0;
  if (file != nullptr)
    size = std::fread(head.data(), 1, kHeadBytes, file.get());
  if (file == nullptr || std::ferror(file.get()) != 0) {
    return absl::NotFoundError(
        absl::StrCat(path, ": cannot be read: ", std::strerror(errno)));
  }
  head.resize(size);
  return head;
}

}  // namespace

absl::StatusOr<TraceHead> ReadTraceHead(const TraceConfig& trace) {
  ASSIGN_OR_RETURN(const std::string text, ReadHead(trace.path()));
  TraceFormat format{};
  if (trace.has_format()) {
    ASSIGN_OR_RETURN(format, TraceFormatFromName(trace.format()));
  } else {
    ASSIGN_OR_RETURN(format, GuessTraceFormat(text, trace.path()));
  }
  TraceHead head;
  head.format = std::string(TraceFormatName(format));
  head.has_arrivals = format != TraceFormat::kLengths;
  head.names_prefixes =
      format == TraceFormat::kMooncake ||
      (format == TraceFormat::kRequests &&
       absl::StrContains(text.substr(0, text.find('\n')), "prefix_id"));
  return head;
}

}  // namespace interleave::sim
