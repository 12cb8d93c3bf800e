// The decoder as a BatchRunner that is ready to be timed.

#ifndef SIM_KERNEL_EXECUTOR_WARM_DECODER_H_
#define SIM_KERNEL_EXECUTOR_WARM_DECODER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "sim/kernel_executor/batch_runner.h"
#include "sim/kernel_executor/decoder_options.h"

namespace interleave::sim {

// Errors are those of Decoder::Create and WarmUp.
absl::StatusOr<std::unique_ptr<BatchRunner>> CreateWarmDecoder(
    const DecoderOptions& options);

}  // namespace interleave::sim

#endif  // SIM_KERNEL_EXECUTOR_WARM_DECODER_H_
