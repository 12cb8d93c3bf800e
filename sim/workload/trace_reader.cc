#include "sim/workload/trace_reader.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/line_reader.h"
#include "base/sim_time.h"
#include "base/status_macros.h"
#include "base/text_file.h"
#include "scheduler/request_spec.h"
#include "sim/workload/csv_traces.h"
#include "sim/workload/mooncake_trace.h"
#include "sim/workload/token_limits.h"

namespace interleave::sim {
namespace {

using ::interleave::scheduler::RequestSpec;

struct FormatEntry {
  TraceFormat format;
  absl::string_view name;
  // What only this format's first line contains.
  absl::string_view mark;
};

constexpr FormatEntry kFormats[] = {
    {TraceFormat::kAzure2023, "azure2023", "ContextTokens"},
    {TraceFormat::kMooncake, "mooncake", "{"},
    {TraceFormat::kLengths, "lengths", "num_prefill_tokens"},
    {TraceFormat::kReplay, "replay", "arrival_time_ns"},
    {TraceFormat::kRequests, "requests", "arrival_s"},
};

std::string KnownFormats() {
  std::string names;
  for (const FormatEntry& entry : kFormats) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", entry.name);
  }
  return names;
}

absl::StatusOr<std::vector<RequestSpec>> ParseRequestsOf(absl::string_view text,
                                                         absl::string_view name,
                                                         TraceFormat format,
                                                         bool* has_classes) {
  switch (format) {
    case TraceFormat::kAzure2023:
      return ParseAzure2023(text, name);
    case TraceFormat::kMooncake:
      return ParseMooncake(text, name);
    case TraceFormat::kLengths:
      return ParseLengths(text, name);
    case TraceFormat::kReplay:
      return ParseReplay(text, name);
    case TraceFormat::kRequests:
      return ParseRequests(text, name, has_classes);
  }
  return absl::InternalError("unknown trace format");
}

// Sorts by arrival, and says so when that moved anything.
void SortByArrival(absl::string_view name, TraceReadResult& result) {
  int64_t out_of_order = 0;
  SimTime latest = result.requests.front().arrival;
  for (const RequestSpec& spec : result.requests) {
    if (spec.arrival < latest) ++out_of_order;
    latest = std::max(latest, spec.arrival);
  }
  if (out_of_order == 0) return;
  std::stable_sort(result.requests.begin(), result.requests.end(),
                   [](const RequestSpec& a, const RequestSpec& b) {
                     return a.arrival < b.arrival;
                   });
  result.notices.push_back(absl::StrCat(
      name, ": ", out_of_order, " of ", result.requests.size(),
      " requests arrive before one above them; sorted by arrival"));
}

// Makes arrivals count from the first.
absl::Status CountFromFirst(absl::string_view name,
                            std::vector<RequestSpec>& requests) {
  const SimTime first = requests.front().arrival;
  if (requests.back().arrival - first >
      SimDuration::Nanos(kMaxArrivalSeconds * 1'000'000'000)) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": the last request arrives more than ", kMaxArrivalSeconds,
        " s after the first; correct the timestamps"));
  }
  for (RequestSpec& spec : requests) {
    spec.arrival = SimTime::Zero() + (spec.arrival - first);
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view TraceFormatName(TraceFormat format) {
  for (const FormatEntry& entry : kFormats) {
    if (entry.format == format) return entry.name;
  }
  return "unknown";
}

absl::StatusOr<TraceFormat> TraceFormatFromName(absl::string_view name) {
  for (const FormatEntry& entry : kFormats) {
    if (entry.name == name) return entry.format;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown workload format ", QuoteForMessage(name),
                   "; known are ", KnownFormats()));
}

absl::StatusOr<TraceFormat> GuessTraceFormat(absl::string_view text,
                                             absl::string_view name) {
  LineReader lines(text, name);
  if (!lines.Next()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ":1: the file is empty; it needs at least one request"));
  }
  const absl::string_view line =
      absl::StripLeadingAsciiWhitespace(lines.line());
  for (const FormatEntry& entry : kFormats) {
    const bool matches = entry.format == TraceFormat::kMooncake
                             ? absl::StartsWith(line, entry.mark)
                             : absl::StrContains(line, entry.mark);
    if (matches) return entry.format;
  }
  return lines.Error(
      absl::StrCat(QuoteForMessage(line),
                   " starts no known format; name the columns as one of ",
                   KnownFormats(), " does, or give the format"));
}

absl::StatusOr<TraceReadResult> ParseTrace(absl::string_view text,
                                           absl::string_view name,
                                           TraceFormat format) {
  TraceReadResult result;
  result.format = format;
  result.has_arrivals = format != TraceFormat::kLengths;
  ASSIGN_OR_RETURN(result.requests,
                   ParseRequestsOf(text, name, format, &result.has_classes));
  SortByArrival(name, result);
  if (format == TraceFormat::kAzure2023) {
    RETURN_IF_ERROR(CountFromFirst(name, result.requests));
  }
  int64_t id = 0;
  for (RequestSpec& spec : result.requests) spec.id = id++;
  return result;
}

absl::StatusOr<TraceReadResult> ReadTrace(const std::string& path,
                                          absl::string_view format_name) {
  TraceFormat format{};
  if (!format_name.empty()) {
    ASSIGN_OR_RETURN(format, TraceFormatFromName(format_name));
  }
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  if (format_name.empty()) {
    ASSIGN_OR_RETURN(format, GuessTraceFormat(text, path));
  }
  return ParseTrace(text, path, format);
}

}  // namespace interleave::sim
