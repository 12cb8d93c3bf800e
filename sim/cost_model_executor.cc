#include "sim/cost_model_executor.h"

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/sim_time.h"
#include "sim/cost/batch_shape.h"
#include "sim/executor.h"

namespace interleave::sim {

absl::Status CostModelExecutor::Run(const Batch& batch,
                                    IterationTiming& timing) {
  if (batch.idle > SimDuration::Zero()) model_->Idle(batch.idle);
  timing.device = model_->IterationTime(batch.shape);
  timing.predicted = timing.device;
  timing.host = HostTime(batch.shape.num_sequences());
  if (batch.shape.prefill.empty()) {
    timing.decodes_alone = timing.device;
  } else if (batch.shape.decode.count > 0) {
    model_->DecodeTimes(batch.shape.decode,
                        absl::MakeSpan(&timing.decodes_alone, 1));
  }
  model_->Ran(batch.shape, absl::MakeConstSpan(&timing.device, 1));
  return absl::OkStatus();
}

}  // namespace interleave::sim
