// SharedRunner: one BatchRunner for runs that come one after the other. Making
// a decoder takes longer than many a run: weights, choice of algorithms,
// graphs.

#ifndef SIM_EXPERIMENTS_SHARED_RUNNER_H_
#define SIM_EXPERIMENTS_SHARED_RUNNER_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "sim/kernel_executor/batch_runner.h"
#include "sim/kernel_executor/decoder_options.h"
#include "sim/kernel_executor/runner_registry.h"

namespace interleave::sim {

class SharedRunner {
 public:
  // Runners are made with at least so many tokens a batch, so that policies
  // with different budgets can share one.
  SharedRunner(RunnerFactory make, int32_t max_num_batched_tokens)
      : make_(make), max_num_batched_tokens_(max_num_batched_tokens) {}

  // A runner that stands for the shared one, which is made anew where it does
  // not suit `options`: its limits are too small, or anything else differs.
  // FailedPrecondition while an earlier one is still there.
  absl::StatusOr<std::unique_ptr<BatchRunner>> Create(
      const DecoderOptions& options);

 private:
  const RunnerFactory make_;
  const int32_t max_num_batched_tokens_;
  DecoderOptions options_;
  std::shared_ptr<BatchRunner> runner_;
};

}  // namespace interleave::sim

#endif  // SIM_EXPERIMENTS_SHARED_RUNNER_H_
