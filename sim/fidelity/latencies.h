// Latencies of a run, simulated or measured, and how far two runs are apart.

#ifndef SIM_FIDELITY_LATENCIES_H_
#define SIM_FIDELITY_LATENCIES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/sim_time.h"
#include "sim/metrics/distribution.h"

namespace interleave::sim {

// When one request's tokens came.
struct RequestTimes {
  int32_t output_tokens = 0;
  SimTime arrival;
  SimTime first_token;
  SimTime last_token;
};

struct Latencies {
  Distribution ttft;
  Distribution tpot;
  Distribution e2e;
  // First arrival to last token.
  SimDuration makespan;
};

Latencies LatenciesOf(const std::vector<RequestTimes>& requests);

// Reads what a real server logged: JSON lines with output_toks and, in seconds
// on one clock, queued_ts, first_token_ts and last_token_ts; the clock starts
// at the first queued_ts.  InvalidArgument names `name`, the line and what is
// wrong.
absl::StatusOr<std::vector<RequestTimes>> ReadMeasuredRequests(
    absl::string_view text, absl::string_view name);

// One statistic of two runs, or its means over repeats of either.
struct Deviation {
  std::string statistic;
  double measured_ms = 0;
  double simulated_ms = 0;
  // Standard deviations of single repeats (by n - 1); 0 where there are none.
  double measured_deviation_ms = 0;
  double simulated_deviation_ms = 0;

  // (simulated - measured) / measured.
  double relative() const {
    return measured_ms == 0 ? 0 : (simulated_ms - measured_ms) / measured_ms;
  }
};

// Mean, P50, P90, P95 and P99 of TTFT, TPOT and E2E, and the makespan.
std::vector<Deviation> Compare(const Latencies& measured,
                               const Latencies& simulated);

// A table for a person.
std::string ToTable(const std::vector<Deviation>& deviations);

}  // namespace interleave::sim

#endif  // SIM_FIDELITY_LATENCIES_H_
