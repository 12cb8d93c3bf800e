// What makes BatchRunners on this machine, if the program has it linked in:
// //sim/kernel_executor:kernels registers the decoder.

#ifndef SIM_KERNEL_EXECUTOR_RUNNER_REGISTRY_H_
#define SIM_KERNEL_EXECUTOR_RUNNER_REGISTRY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "sim/kernel_executor/batch_runner.h"
#include "sim/kernel_executor/decoder_options.h"

namespace interleave::sim {

using RunnerFactory =
    absl::StatusOr<std::unique_ptr<BatchRunner>> (*)(const DecoderOptions&);

// Before main starts, or in a test. A later factory replaces an earlier one.
// Returns true, for initializers.
bool RegisterRunner(RunnerFactory factory);

// FailedPrecondition where no factory is linked in, with the remedy; else what
// the factory says.
absl::StatusOr<std::unique_ptr<BatchRunner>> CreateRunner(
    const DecoderOptions& options);

}  // namespace interleave::sim

#endif  // SIM_KERNEL_EXECUTOR_RUNNER_REGISTRY_H_
