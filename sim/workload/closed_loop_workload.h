// Closed-loop workload: n users, each of whom waits for an answer, thinks, and
// asks again.  The server sets the pace; at most n requests are in flight.

#ifndef SIM_WORKLOAD_CLOSED_LOOP_WORKLOAD_H_
#define SIM_WORKLOAD_CLOSED_LOOP_WORKLOAD_H_

#include <cstdint>
#include <memory>

#include "base/random.h"
#include "base/sim_time.h"
#include "sim/workload/request_source.h"
#include "sim/workload/workload.h"

namespace interleave::sim {

struct ClosedLoopOptions {
  // >= 1.
  int32_t users = 1;
  // The i-th user's first request arrives at i times this, >= 0.
  double start_gap_s = 0;
  // Mean time from the end of a user's request to the next one, >= 0.
  double think_time_s = 0;
  // Exponentially distributed; else always the mean.
  bool exponential_think_time = false;
};

// Think times draw from `rng.Fork("think_time")`.  Requests of the source are
// given out in order of arrival.
// REQUIRES: 1 <= num_requests <= source->size().
std::unique_ptr<Workload> MakeClosedLoopWorkload(
    const ClosedLoopOptions& options, std::unique_ptr<RequestSource> source,
    int64_t num_requests, const Rng& rng);

}  // namespace interleave::sim

#endif  // SIM_WORKLOAD_CLOSED_LOOP_WORKLOAD_H_
