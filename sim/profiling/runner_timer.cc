#include "sim/profiling/runner_timer.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/ceil_div.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "sim/cost/batch_shape.h"

namespace interleave::sim {
namespace {

constexpr size_t kRandomTokens = 8191;

}  // namespace

RunnerTimer::RunnerTimer(BatchRunner* runner, uint64_t seed)
    : runner_(runner),
      num_blocks_(runner->num_blocks()),
      block_size_(runner->block_size()),
      blocks_(static_cast<size_t>(runner->num_blocks())) {
  Rng rng(seed);
  std::iota(blocks_.begin(), blocks_.end(), 0);
  for (size_t i = 0; i < kRandomTokens; ++i) {
    random_tokens_.push_back(
        static_cast<int32_t>(rng.UniformInt(0, runner->vocab_size() - 1)));
  }
}

void RunnerTimer::Add(int32_t num_tokens, int32_t cached_tokens) {
  DecoderSequence sequence;
  sequence.num_tokens = num_tokens;
  sequence.cached_tokens = cached_tokens;
  sequences_.push_back(sequence);
  first_blocks_.push_back(next_block_);
  const int64_t count =
      CeilDiv(int64_t{num_tokens} + cached_tokens, block_size_);
  next_block_ = (next_block_ + count) % num_blocks_;
  for (int32_t i = 0; i < num_tokens; ++i) {
    tokens_.push_back(random_tokens_[tokens_.size() % kRandomTokens]);
  }
}

bool RunnerTimer::RepeatsDecodes(const MeasuredBatch& batch) const {
  const auto has_all = [](const MeasuredBatch& b) {
    return b.chunks.empty() && b.part != BatchPart::kAttention && b.layers == 0;
  };
  return has_all(batch) && has_all(latest_) && batch.part == latest_.part &&
         batch.decode_kv == latest_.decode_kv;
}

absl::StatusOr<BatchTime> RunnerTimer::Time(const MeasuredBatch& batch) {
  if (RepeatsDecodes(batch)) next_block_ = latest_begin_;
  latest_ = batch;
  latest_begin_ = next_block_;
  sequences_.clear();
  tokens_.clear();
  first_blocks_.clear();
  // Decodes first, as the executor of simulations has them.
  for (const int32_t kv : batch.decode_kv) Add(1, kv);
  for (const PrefillChunk& chunk : batch.chunks) {
    Add(chunk.query_tokens, chunk.context_tokens);
  }
  int64_t longest = 0;
  for (const DecoderSequence& s : sequences_) {
    longest = std::max(longest, int64_t{s.num_tokens} + s.cached_tokens);
  }
  longest = CeilDiv(longest, block_size_);
  if (longest > num_blocks_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a sequence of ", longest, " blocks is to be timed, and ",
                     "the KV cache has ", num_blocks_,
                     "; measure shorter ones, or a smaller model"));
  }
  while (static_cast<int64_t>(blocks_.size()) < num_blocks_ + longest) {
    blocks_.push_back(
        blocks_[blocks_.size() - static_cast<size_t>(num_blocks_)]);
  }
  for (size_t i = 0; i < sequences_.size(); ++i) {
    DecoderSequence& s = sequences_[i];
    const int64_t count =
        CeilDiv(int64_t{s.num_tokens} + s.cached_tokens, block_size_);
    s.blocks = absl::MakeConstSpan(blocks_.data() + first_blocks_[i],
                                   static_cast<size_t>(count));
  }
  DecoderBatch decoder_batch;
  decoder_batch.sequences = sequences_;
  decoder_batch.tokens = tokens_;
  decoder_batch.part = batch.part;
  decoder_batch.layers = batch.layers;
  ASSIGN_OR_RETURN(const DecoderTiming timing,
                   runner_->Run(decoder_batch, nullptr));
  return BatchTime{timing.device, timing.host};
}

}  // namespace interleave::sim
