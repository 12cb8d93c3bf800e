#include "sim/workload/mooncake_trace.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/ceil_div.h"
#include "base/line_reader.h"
#include "base/sim_time.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "scheduler/request_spec.h"
#include "sim/workload/token_limits.h"

namespace interleave::sim {
namespace {

using ::interleave::scheduler::RequestSpec;
using Json = ::nlohmann::json;

constexpr int64_t kMaxArrivalMillis = kMaxArrivalSeconds * 1000;
constexpr int64_t kNanosPerMilli = 1'000'000;

absl::Status OutOfRange(const LineReader& lines, absl::string_view key,
                        const Json& value, int64_t low, int64_t high) {
  // Nested values are not printed: they may be nested without bound.
  const std::string text =
      value.is_structured() ? value.type_name() : value.dump();
  return lines.Error(absl::StrCat(key, " ", QuoteForMessage(text),
                                  " must be a whole number in [", low, ", ",
                                  high, "]"));
}

// The value as a whole number in [low, high].
absl::StatusOr<int64_t> WholeNumber(const LineReader& lines,
                                    absl::string_view key, const Json& value,
                                    int64_t low, int64_t high) {
  // Unsigned numbers above the range of int64_t would wrap.
  const bool fits = value.is_number_unsigned()
                        ? value.get<uint64_t>() <= static_cast<uint64_t>(high)
                        : value.is_number_integer();
  if (!fits) return OutOfRange(lines, key, value, low, high);
  const int64_t number = value.get<int64_t>();
  if (number < low || number > high) {
    return OutOfRange(lines, key, value, low, high);
  }
  return number;
}

absl::StatusOr<const Json*> Find(const LineReader& lines, const Json& object,
                                 const char* key) {
  const auto it = object.find(key);
  if (it == object.end()) {
    return lines.Error(
        absl::StrCat("key ", key,
                     " is missing; a request has timestamp, input_length, "
                     "output_length and hash_ids"));
  }
  return &*it;
}

absl::StatusOr<int32_t> ReadTokens(const LineReader& lines, const Json& object,
                                   const char* key) {
  ASSIGN_OR_RETURN(const Json* value, Find(lines, object, key));
  ASSIGN_OR_RETURN(const int64_t tokens,
                   WholeNumber(lines, key, *value, 0, kMaxTokens));
  if (tokens == 0) {
    return lines.Error(
        absl::StrCat(key,
                     " is 0; a request has at least one token of prompt and "
                     "one of output: remove the line"));
  }
  return static_cast<int32_t>(tokens);
}

absl::StatusOr<SimTime> ReadArrival(const LineReader& lines,
                                    const Json& object) {
  constexpr char kKey[] = "timestamp";
  ASSIGN_OR_RETURN(const Json* value, Find(lines, object, kKey));
  if (value->is_number_float()) {
    const double millis = value->get<double>();
    if (!(millis >= 0 && millis <= static_cast<double>(kMaxArrivalMillis))) {
      return OutOfRange(lines, kKey, *value, 0, kMaxArrivalMillis);
    }
    return SimTime::Zero() + SimDuration::Millis(millis);
  }
  ASSIGN_OR_RETURN(const int64_t millis,
                   WholeNumber(lines, kKey, *value, 0, kMaxArrivalMillis));
  return SimTime::FromNanos(millis * kNanosPerMilli);
}

absl::Status ReadSegments(const LineReader& lines, const Json& object,
                          RequestSpec& spec) {
  ASSIGN_OR_RETURN(const Json* ids, Find(lines, object, "hash_ids"));
  if (!ids->is_array())
    return lines.Error("hash_ids must be a list of numbers");
  const int64_t expected = CeilDiv(spec.prompt_tokens, kMooncakeBlockTokens);
  if (static_cast<int64_t>(ids->size()) != expected) {
    return lines.Error(
        absl::StrCat("hash_ids has ", ids->size(), " ids where input_length ",
                     spec.prompt_tokens, " needs ", expected, ", one for each ",
                     kMooncakeBlockTokens, " tokens"));
  }
  spec.segments.reserve(ids->size());
  int32_t left = spec.prompt_tokens;
  for (const Json& id : *ids) {
    ASSIGN_OR_RETURN(const int64_t content_id,
                     WholeNumber(lines, "hash_ids", id, 0, kMaxContentId));
    const int32_t tokens = std::min(left, kMooncakeBlockTokens);
    spec.segments.push_back({.content_id = content_id, .num_tokens = tokens});
    left -= tokens;
  }
  return absl::OkStatus();
}

absl::Status ReadRequest(const LineReader& lines, RequestSpec& spec) {
  const absl::string_view line = lines.line();
  const Json object = Json::parse(line.begin(), line.end(), /*cb=*/nullptr,
                                  /*allow_exceptions=*/false);
  if (!object.is_object()) {
    if (absl::StripAsciiWhitespace(line).empty()) {
      return lines.Error("an empty line amid the requests; remove it");
    }
    return lines.Error(absl::StrCat(QuoteForMessage(line),
                                    " is not a JSON object; is the line cut "
                                    "short?"));
  }
  ASSIGN_OR_RETURN(spec.arrival, ReadArrival(lines, object));
  ASSIGN_OR_RETURN(spec.prompt_tokens,
                   ReadTokens(lines, object, "input_length"));
  ASSIGN_OR_RETURN(spec.output_tokens,
                   ReadTokens(lines, object, "output_length"));
  spec.max_output_tokens = spec.output_tokens;
  return ReadSegments(lines, object, spec);
}

}  // namespace

absl::StatusOr<std::vector<RequestSpec>> ParseMooncake(absl::string_view text,
                                                       absl::string_view name) {
  LineReader lines(text, name);
  std::vector<RequestSpec> requests;
  while (lines.Next()) {
    RETURN_IF_ERROR(ReadRequest(lines, requests.emplace_back()));
  }
  if (requests.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ":1: the file is empty; it needs at least one request"));
  }
  return requests;
}

}  // namespace interleave::sim
