#include "sim/kernel_executor/runner_registry.h"

#include <atomic>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sim/kernel_executor/batch_runner.h"
#include "sim/kernel_executor/decoder_options.h"

namespace interleave::sim {
namespace {

std::atomic<RunnerFactory> registered = nullptr;

}  // namespace

bool RegisterRunner(RunnerFactory factory) {
  registered = factory;
  return true;
}

absl::StatusOr<std::unique_ptr<BatchRunner>> CreateRunner(
    const DecoderOptions& options) {
  const RunnerFactory factory = registered;
  if (factory != nullptr) return factory(options);
  return absl::FailedPreconditionError(
      "this program has no kernels, since it was built without the CUDA "
      "toolkit; build it where nvcc is (CUDA_HOME names its folder), or use "
      "executor: COST_MODEL");
}

}  // namespace interleave::sim
