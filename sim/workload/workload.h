// Workload: a stream of requests in order of arrival, read one at a time so
// that a run's memory grows with live requests only.

#ifndef SIM_WORKLOAD_WORKLOAD_H_
#define SIM_WORKLOAD_WORKLOAD_H_

#include <cstdint>

#include "base/sim_time.h"
#include "scheduler/request_spec.h"

namespace interleave::sim {

class Workload {
 public:
  virtual ~Workload() = default;

  // When the next request arrives, as far as it is known now:
  // SimTime::Infinity() when none is left, or (closed loop) when the next one
  // waits for a request in flight to end.
  virtual SimTime NextArrival() = 0;

  // Takes the next request.  Arrivals never decrease; ids count from 0.
  // REQUIRES: NextArrival() < SimTime::Infinity().
  virtual scheduler::RequestSpec Next() = 0;

  // Tells that request `id` has ended (completed or rejected) at `now`.  Only
  // closed-loop workloads care: a user's next request follows the last one.
  virtual void OnRequestDone(int64_t id, SimTime now) {}

  // How many requests the stream holds in all, -1 when unknown.
  virtual int64_t TotalRequests() const { return -1; }
};

}  // namespace interleave::sim

#endif  // SIM_WORKLOAD_WORKLOAD_H_
