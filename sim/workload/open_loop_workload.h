// Open-loop workloads: requests arrive when they arrive, however the server
// fares.

#ifndef SIM_WORKLOAD_OPEN_LOOP_WORKLOAD_H_
#define SIM_WORKLOAD_OPEN_LOOP_WORKLOAD_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "base/random.h"
#include "scheduler/request_spec.h"
#include "sim/workload/arrival_law.h"
#include "sim/workload/request_source.h"
#include "sim/workload/workload.h"

namespace interleave::sim {

// `num_requests` of the source's requests at the law's times, made one by one:
// nothing is stored per request.  Arrivals draw from `rng.Fork("arrival")`.
// REQUIRES: 1 <= num_requests <= source->size().
std::unique_ptr<Workload> MakeOpenLoopWorkload(
    std::unique_ptr<ArrivalLaw> arrivals, std::unique_ptr<RequestSource> source,
    int64_t num_requests, const Rng& rng);

// The source's requests at the given times.
// REQUIRES: not empty, never decreasing, arrivals.size() <= source->size().
std::unique_ptr<Workload> MakeTimedWorkload(
    std::vector<SimTime> arrivals, std::unique_ptr<RequestSource> source);

}  // namespace interleave::sim

#endif  // SIM_WORKLOAD_OPEN_LOOP_WORKLOAD_H_
