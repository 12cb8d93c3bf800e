// CostModelExecutor: an executor that asks a cost model.

#ifndef SIM_COST_MODEL_EXECUTOR_H_
#define SIM_COST_MODEL_EXECUTOR_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/sim_time.h"
#include "sim/cost/batch_shape.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/host_overhead.h"
#include "sim/executor.h"

namespace interleave::sim {

class CostModelExecutor final : public Executor {
 public:
  CostModelExecutor(std::unique_ptr<CostModel> model, HostOverhead overhead)
      : model_(std::move(model)), overhead_(overhead) {}

  absl::Status Run(const Batch& batch, IterationTiming& timing) override;
  bool CanForesee() const override { return true; }
  void Foresee(const DecodeGroup& first, absl::Span<SimDuration> out) override {
    model_->DecodeTimes(first, out);
  }
  void OnForeseen(int64_t sequences,
                  absl::Span<const SimDuration> device) override {
    BatchShape shape;
    shape.decode.count = sequences;
    model_->Ran(shape, device);
  }
  SimDuration HostTime(int64_t num_sequences) const override {
    return overhead_.Of(num_sequences);
  }
  SimDuration Predict(const BatchShape& shape) override {
    return model_->IterationTime(shape);
  }
  bool NeedsKvTokensMax() const override { return model_->NeedsKvTokensMax(); }

  const CostModel& model() const { return *model_; }

 private:
  const std::unique_ptr<CostModel> model_;
  const HostOverhead overhead_;
};

}  // namespace interleave::sim

#endif  // SIM_COST_MODEL_EXECUTOR_H_
