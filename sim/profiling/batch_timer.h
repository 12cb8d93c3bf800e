// BatchTimer: what the profiler needs of an engine: how long an iteration of a
// given batch takes.

#ifndef SIM_PROFILING_BATCH_TIMER_H_
#define SIM_PROFILING_BATCH_TIMER_H_

#include "absl/status/statusor.h"
#include "base/sim_time.h"
#include "sim/profiling/measured_batch.h"

namespace interleave::sim {

struct BatchTime {
  SimDuration device;
  // The host's share that does not overlap it.
  SimDuration host;
};

class BatchTimer {
 public:
  virtual ~BatchTimer() = default;

  // Runs one whole iteration.
  virtual absl::StatusOr<BatchTime> Time(const MeasuredBatch& batch) = 0;
};

}  // namespace interleave::sim

#endif  // SIM_PROFILING_BATCH_TIMER_H_
