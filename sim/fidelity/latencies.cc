#include "sim/fidelity/latencies.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/line_reader.h"
#include "base/sim_time.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "sim/metrics/distribution.h"

namespace interleave::sim {
namespace {

using Json = nlohmann::json;

absl::StatusOr<double> Number(const Json& object, const char* key,
                              const LineReader& lines) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_number()) {
    return lines.Error(absl::StrCat("there is no number \"", key, "\""));
  }
  return it->get<double>();
}

absl::StatusOr<RequestTimes> ParseRequest(const LineReader& lines) {
  const std::string line(lines.line());
  const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    return lines.Error("it is not a JSON object; one request a line");
  }
  ASSIGN_OR_RETURN(const double tokens, Number(object, "output_toks", lines));
  ASSIGN_OR_RETURN(const double queued, Number(object, "queued_ts", lines));
  ASSIGN_OR_RETURN(const double first, Number(object, "first_token_ts", lines));
  ASSIGN_OR_RETURN(const double last, Number(object, "last_token_ts", lines));
  if (tokens < 1 || tokens > 1e9 || std::floor(tokens) != tokens) {
    return lines.Error("output_toks must be a whole number of at least 1");
  }
  // Nanoseconds in 63 bits, and order.
  if (!(0 <= queued && queued <= first && first <= last && last < 9e9)) {
    return lines.Error(
        "queued_ts, first_token_ts and last_token_ts must be seconds, in this "
        "order");
  }
  RequestTimes times;
  times.output_tokens = static_cast<int32_t>(tokens);
  times.arrival = SimTime::FromSeconds(queued);
  times.first_token = SimTime::FromSeconds(first);
  times.last_token = SimTime::FromSeconds(last);
  return times;
}

void CompareOne(absl::string_view name, const Distribution& measured,
                const Distribution& simulated, std::vector<Deviation>& out) {
  out.push_back({absl::StrCat(name, " mean"), measured.mean_nanos() / 1e6,
                 simulated.mean_nanos() / 1e6});
  for (const auto& [label, q] :
       {std::pair("P50", 0.5), {"P90", 0.9}, {"P95", 0.95}, {"P99", 0.99}}) {
    out.push_back({absl::StrCat(name, " ", label),
                   measured.QuantileNanos(q) / 1e6,
                   simulated.QuantileNanos(q) / 1e6});
  }
}

}  // namespace

Latencies LatenciesOf(const std::vector<RequestTimes>& requests) {
  Latencies latencies;
  SimTime first_arrival = SimTime::Infinity();
  SimTime last_token;
  for (const RequestTimes& request : requests) {
    latencies.ttft.Add(request.first_token - request.arrival);
    latencies.e2e.Add(request.last_token - request.arrival);
    if (request.output_tokens > 1) {
      const double gaps = request.output_tokens - 1;
      latencies.tpot.Add(SimDuration::Nanos(
          std::llround(static_cast<double>(
                           (request.last_token - request.first_token).nanos()) /
                       gaps)));
    }
    first_arrival = std::min(first_arrival, request.arrival);
    last_token = std::max(last_token, request.last_token);
  }
  if (!requests.empty()) latencies.makespan = last_token - first_arrival;
  return latencies;
}

absl::StatusOr<std::vector<RequestTimes>> ReadMeasuredRequests(
    absl::string_view text, absl::string_view name) {
  std::vector<RequestTimes> requests;
  LineReader lines(text, name);
  while (lines.Next()) {
    ASSIGN_OR_RETURN(const RequestTimes times, ParseRequest(lines));
    requests.push_back(times);
  }
  if (requests.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": there is no request in it"));
  }
  SimTime start = requests.front().arrival;
  for (const RequestTimes& request : requests) {
    start = std::min(start, request.arrival);
  }
  for (RequestTimes& request : requests) {
    request.arrival = request.arrival - start.since_start();
    request.first_token = request.first_token - start.since_start();
    request.last_token = request.last_token - start.since_start();
  }
  return requests;
}

std::vector<Deviation> Compare(const Latencies& measured,
                               const Latencies& simulated) {
  std::vector<Deviation> deviations;
  CompareOne("TTFT", measured.ttft, simulated.ttft, deviations);
  CompareOne("TPOT", measured.tpot, simulated.tpot, deviations);
  CompareOne("E2E", measured.e2e, simulated.e2e, deviations);
  deviations.push_back(
      {"makespan", measured.makespan.millis(), simulated.makespan.millis()});
  return deviations;
}

std::string ToTable(const std::vector<Deviation>& deviations) {
  std::string table = absl::StrFormat("%-10s %14s %14s %8s\n", "statistic",
                                      "measured ms", "simulated ms", "error");
  for (const Deviation& d : deviations) {
    absl::StrAppendFormat(&table, "%-10s %14.2f %14.2f %+7.2f%%\n", d.statistic,
                          d.measured_ms, d.simulated_ms, 100 * d.relative());
  }
  return table;
}

}  // namespace interleave::sim
