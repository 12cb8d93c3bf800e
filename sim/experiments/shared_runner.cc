#include "sim/experiments/shared_runner.h"

#include <algorithm>
#include <string>
#include <tuple>
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

auto ShapeOf(const DecoderShape& s) {
  return std::tie(s.num_layers, s.hidden_size, s.num_heads, s.num_kv_heads,
                  s.head_dim, s.intermediate_size, s.vocab_size,
                  s.tied_embeddings, s.rope_theta, s.norm_epsilon);
}

// All but limits.
auto KindOf(const DecoderOptions& o) {
  return std::tie(o.block_size, o.num_blocks, o.memory_utilization, o.seed,
                  o.device, o.tensor_parallel_size, o.tensor_parallel_rank,
                  o.batch_invariant, o.cuda_graphs, o.tune_linear_layers);
}

bool Suits(const DecoderOptions& made, const DecoderOptions& wanted) {
  return ShapeOf(made.shape) == ShapeOf(wanted.shape) &&
         KindOf(made) == KindOf(wanted) &&
         made.max_num_seqs == wanted.max_num_seqs &&
         made.max_model_len == wanted.max_model_len &&
         made.max_num_batched_tokens >= wanted.max_num_batched_tokens;
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
