#include "sim/profiling/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/line_reader.h"
#include "base/sim_time.h"
#include "base/status_macros.h"
#include "base/text_file.h"

namespace interleave::sim {
namespace {

constexpr absl::Duration kSyncInterval = absl::Milliseconds(500);

std::string Head(absl::string_view subject) {
  return absl::StrCat("# interleave profile: ", subject);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Journal>> Journal::Open(
    const std::string& path, absl::string_view subject) {
  absl::StatusOr<std::string> text = ReadTextFile(path);
  if (!text.ok() && !absl::IsNotFound(text.status())) return text.status();
  const int descriptor =
      open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    return absl::NotFoundError(
        absl::StrCat(path, ": cannot be written: ", std::strerror(errno)));
  }
  std::unique_ptr<Journal> journal(new Journal(path, descriptor));
  // What stands behind the last end of line was being written, and empty lines
  // before it would stand between the last line and the next.
  const absl::string_view found = text.ok() ? *text : absl::string_view();
  const absl::string_view lines = found.substr(0, found.rfind('\n') + 1);
  const absl::string_view kept = absl::StripTrailingAsciiWhitespace(lines);
  const bool torn_head =
      lines.empty() && absl::StartsWith(Head(subject), found);
  if (!torn_head) {
    RETURN_IF_ERROR(journal->Load(lines.empty() ? found : lines, subject));
  }
  if (ftruncate(descriptor, static_cast<off_t>(kept.size())) != 0 ||
      lseek(descriptor, 0, SEEK_END) < 0) {
    return absl::DataLossError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  RETURN_IF_ERROR(
      journal->Write(absl::StrCat(kept.empty() ? Head(subject) : "", "\n")));
  return journal;
}

Journal::~Journal() {
  fdatasync(descriptor_);
  close(descriptor_);
}

absl::Status Journal::Load(absl::string_view text, absl::string_view subject) {
  LineReader lines(text, path_);
  lines.Next();
  if (lines.line() != Head(subject)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, " holds ", QuoteForMessage(lines.line()),
                     ", and this is ", QuoteForMessage(Head(subject)),
                     "; remove that file or give another folder"));
  }
  while (lines.Next()) {
    const std::vector<absl::string_view> fields =
        absl::StrSplit(lines.line(), ',');
    int64_t device = 0;
    int64_t host = 0;
    if (fields.size() != 3 || fields[0].empty() ||
        !absl::SimpleAtoi(fields[1], &device) || device < 0 ||
        !absl::SimpleAtoi(fields[2], &host) || host < 0) {
      return lines.Error(
          "expected batch,device_ns,host_ns; remove the line, or the file to "
          "measure everything again");
    }
    times_[std::string(fields[0])] = {SimDuration::Nanos(device),
                                      SimDuration::Nanos(host)};
    ++resumed_;
  }
  return absl::OkStatus();
}

std::optional<BatchTime> Journal::Find(const std::string& key) const {
  const auto found = times_.find(key);
  if (found == times_.end()) return std::nullopt;
  return found->second;
}

absl::Status Journal::Add(const std::string& key, BatchTime time) {
  times_[key] = time;
  return Write(absl::StrCat(key, ",", time.device.nanos(), ",",
                            time.host.nanos(), "\n"));
}

absl::Status Journal::Write(absl::string_view line) {
  while (!line.empty()) {
    const ssize_t written = write(descriptor_, line.data(), line.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      return absl::DataLossError(
          absl::StrCat(path_, ": cannot be written: ", std::strerror(errno)));
    }
    line.remove_prefix(static_cast<size_t>(written));
  }
  const absl::Time now = absl::Now();
  if (now - last_sync_ < kSyncInterval) return absl::OkStatus();
  last_sync_ = now;
  if (fdatasync(descriptor_) != 0) {
    return absl::DataLossError(absl::StrCat(
        path_, ": cannot be written to disk: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace interleave::sim
