#include "sim/kernel_executor/warm_up.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/ceil_div.h"
#include "base/status_macros.h"
#include "sim/kernel_executor/batch_runner.h"
#include "sim/kernel_executor/decoder_options.h"
#include "sim/kernel_executor/linear_buckets.h"

namespace interleave::sim {
namespace {

// Tokens of a chunk.
constexpr int32_t kChunkBesideDecode = 32;

class Warmer {
 public:
  Warmer(const DecoderOptions& options, BatchRunner& runner)
      : options_(options), runner_(runner) {}

  // A chunk, and a decode beside it; either may be absent. What does not fit is
  // left out.
  absl::Status Run(int32_t chunk, bool decode) const {
    const int32_t block_size = runner_.block_size();
    std::vector<DecoderSequence> sequences;
    if (decode) sequences.push_back({1, 1, true, {}});
    if (chunk > 0) sequences.push_back({chunk, 0, true, {}});
    std::vector<int32_t> blocks;
    std::vector<size_t> begins;
    int64_t tokens = 0;
    for (const DecoderSequence& sequence : sequences) {
      const int64_t length =
          int64_t{sequence.num_tokens} + sequence.cached_tokens;
      if (length > options_.max_model_len) return absl::OkStatus();
      begins.push_back(blocks.size());
      for (int64_t i = CeilDiv(length, block_size); i > 0; --i) {
        blocks.push_back(static_cast<int32_t>(blocks.size()));
      }
      tokens += sequence.num_tokens;
    }
    if (static_cast<int64_t>(blocks.size()) > runner_.num_blocks() ||
        tokens > options_.max_num_batched_tokens ||
        static_cast<int64_t>(sequences.size()) > options_.max_num_seqs) {
      return absl::OkStatus();
    }
    for (size_t i = 0; i < sequences.size(); ++i) {
      sequences[i].blocks = absl::MakeConstSpan(blocks).subspan(begins[i]);
    }
    const std::vector<int32_t> ids(static_cast<size_t>(tokens), 0);
    DecoderBatch batch;
    batch.sequences = sequences;
    batch.tokens = ids;
    DecoderOutput output;
    return runner_.Run(batch, &output).status();
  }

 private:
  const DecoderOptions& options_;
  BatchRunner& runner_;
};

}  // namespace

absl::Status WarmUp(const DecoderOptions& options, BatchRunner& runner) {
  const Warmer warmer(options, runner);
  // Linear layers have other kernels in every bucket.
  for (const int64_t tokens : LinearBuckets(options.max_num_batched_tokens)) {
    if (tokens > 1) {
      RETURN_IF_ERROR(warmer.Run(static_cast<int32_t>(tokens), false));
    }
  }
  RETURN_IF_ERROR(warmer.Run(kChunkBesideDecode, true));
  return warmer.Run(0, true);
}

}  // namespace interleave::sim
