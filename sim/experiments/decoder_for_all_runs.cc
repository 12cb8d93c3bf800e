// Links the GPU's decoder into an experiment; all its runs share one.

#include <memory>

#include "absl/status/statusor.h"
#include "sim/experiments/shared_runner.h"
#include "sim/kernel_executor/batch_runner.h"
#include "sim/kernel_executor/decoder_options.h"
#include "sim/kernel_executor/runner_registry.h"
#include "sim/kernel_executor/warm_decoder.h"

namespace interleave::sim {
namespace {

// What policies without a budget of tokens get.
constexpr int32_t kTokens = 16384;

absl::StatusOr<std::unique_ptr<BatchRunner>> Share(
    const DecoderOptions& options) {
  static SharedRunner& shared = *new SharedRunner(&CreateWarmDecoder, kTokens);
  return shared.Create(options);
}

[[maybe_unused]] const bool kRegistered = RegisterRunner(&Share);

}  // namespace
}  // namespace interleave::sim
