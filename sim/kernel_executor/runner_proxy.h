// RunnerProxy: a BatchRunner to give away that stands for one that is kept.

#ifndef SIM_KERNEL_EXECUTOR_RUNNER_PROXY_H_
#define SIM_KERNEL_EXECUTOR_RUNNER_PROXY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "sim/kernel_executor/batch_runner.h"

namespace interleave::sim {

class RunnerProxy final : public BatchRunner {
 public:
  explicit RunnerProxy(std::shared_ptr<BatchRunner> runner)
      : runner_(std::move(runner)) {}
  // `runner` must outlive the proxy.
  explicit RunnerProxy(BatchRunner* runner)
      : runner_(std::shared_ptr<void>(), runner) {}

  absl::StatusOr<DecoderTiming> Run(const DecoderBatch& batch,
                                    DecoderOutput* output) override {
    return runner_->Run(batch, output);
  }
  int32_t vocab_size() const override { return runner_->vocab_size(); }
  int32_t block_size() const override { return runner_->block_size(); }
  int64_t num_blocks() const override { return runner_->num_blocks(); }
  std::string Description() const override { return runner_->Description(); }

 private:
  const std::shared_ptr<BatchRunner> runner_;
};

}  // namespace interleave::sim

#endif  // SIM_KERNEL_EXECUTOR_RUNNER_PROXY_H_
