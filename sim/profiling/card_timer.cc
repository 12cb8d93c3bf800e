#include "sim/profiling/card_timer.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "sim/cost/batch_shape.h"
#include "sim/profiling/batch_timer.h"
#include "sim/profiling/measured_batch.h"

namespace interleave::sim {

absl::StatusOr<BatchTime> CardTimer::Time(const MeasuredBatch& batch) {
  ASSIGN_OR_RETURN(const BatchTime time, timer_->Time(batch));
  state_ =
      throttle_.After(throttle_.TokensOf(batch.shape()), time.device, state_);
  if (ran_ && !ran_()) return absl::CancelledError("stopped");
  return time;
}

absl::Status CardTimer::Recover() {
  while (state_ > kRecovered) RETURN_IF_ERROR(Time(decodes_).status());
  return absl::OkStatus();
}

}  // namespace interleave::sim
