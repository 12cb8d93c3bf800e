#include "sim/experiments/shared_runner.h"

#include <algorithm>
#include <memory>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "sim/kernel_executor/runner_proxy.h"

namespace interleave::sim {
namespace {

bool Suits(const DecoderOptions& made, DecoderOptions wanted) {
  if (made.max_num_batched_tokens < wanted.max_num_batched_tokens) return false;
  wanted.max_num_batched_tokens = made.max_num_batched_tokens;
  return made == wanted;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BatchRunner>> SharedRunner::Create(
    const DecoderOptions& options) {
  if (runner_ != nullptr && runner_.use_count() > 1) {
    return absl::FailedPreconditionError(
        "a run uses the GPU already; run one at a time");
  }
  if (runner_ == nullptr || !Suits(options_, options)) {
    // Its memory must be free before the next one takes some.
    runner_ = nullptr;
    options_ = options;
    options_.max_num_batched_tokens =
        std::max(options.max_num_batched_tokens, max_num_batched_tokens_);
    ASSIGN_OR_RETURN(runner_, make_(options_));
  }
  return std::make_unique<RunnerProxy>(runner_);
}

}  // namespace interleave::sim
