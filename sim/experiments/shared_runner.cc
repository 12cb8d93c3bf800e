#include "sim/experiments/shared_runner.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"

namespace interleave::sim {
namespace {

class Proxy final : public BatchRunner {
 public:
  explicit Proxy(std::shared_ptr<BatchRunner> runner)
      : runner_(std::move(runner)) {}

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
  return std::make_unique<Proxy>(runner_);
}

}  // namespace interleave::sim
