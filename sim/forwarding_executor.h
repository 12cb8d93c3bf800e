// ForwardingExecutor: an executor that does what another one does, for others
// to differ from in what they override.

#ifndef SIM_FORWARDING_EXECUTOR_H_
#define SIM_FORWARDING_EXECUTOR_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "base/sim_time.h"
#include "scheduler/request.h"
#include "sim/cost/batch_shape.h"
#include "sim/executor.h"

namespace interleave::sim {

// Foresees nothing: what overrides Run is asked for each iteration.
class ForwardingExecutor : public Executor {
 public:
  absl::Status Run(const Batch& batch, IterationTiming& timing) override {
    return executor_->Run(batch, timing);
  }
  SimDuration HostTime(int64_t num_sequences) const override {
    return executor_->HostTime(num_sequences);
  }
  SimDuration Predict(const BatchShape& shape) override {
    return executor_->Predict(shape);
  }
  bool NeedsKvTokensMax() const override {
    return executor_->NeedsKvTokensMax();
  }
  void OnRequestDone(const scheduler::Request& request) override {
    executor_->OnRequestDone(request);
  }

 protected:
  explicit ForwardingExecutor(std::unique_ptr<Executor> executor)
      : executor_(std::move(executor)) {}

 private:
  const std::unique_ptr<Executor> executor_;
};

}  // namespace interleave::sim

#endif  // SIM_FORWARDING_EXECUTOR_H_
