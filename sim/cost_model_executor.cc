#include "sim/cost_model_executor.h"

#include "absl/status/statusor.h"
#include "base/sim_time.h"
#include "sim/cost/batch_shape.h"
#include "sim/executor.h"

namespace interleave::sim {

absl::StatusOr<IterationTiming> CostModelExecutor::Run(const Batch& batch) {
  IterationTiming timing;
  timing.device = model_->IterationTime(batch.shape);
  timing.predicted = timing.device;
  timing.host = HostTime(batch.shape.num_sequences());
  if (batch.shape.prefill.empty()) {
    timing.decodes_alone = timing.device;
  } else if (batch.shape.decode.count > 0) {
    BatchShape decodes;
    decodes.decode = batch.shape.decode;
    timing.decodes_alone = model_->IterationTime(decodes);
  }
  return timing;
}

}  // namespace interleave::sim
