#include "sim/kernel_executor/warm_up.h"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/ceil_div.h"
#include "base/status_macros.h"
#include "sim/kernel_executor/batch_packing.h"
#include "sim/kernel_executor/batch_runner.h"
#include "sim/kernel_executor/decoder_options.h"
#include "sim/kernel_executor/linear_buckets.h"

namespace interleave::sim {
namespace {

// Tokens of a chunk.
constexpr int32_t kChunkBesideDecode = 32;

// A chunk, and a decode beside it; either may be absent. What the runner, of
// these options, would not take is left out.
absl::Status RunOne(const DecoderOptions& options, BatchRunner& runner,
                    int32_t chunk, bool decode) {
  // The decode has one token in the cache and adds one.
  const int64_t of_decode = decode ? CeilDiv(2, options.block_size) : 0;
  std::vector<int32_t> blocks(
      static_cast<size_t>(of_decode + CeilDiv(chunk, options.block_size)));
  std::iota(blocks.begin(), blocks.end(), 0);
  const auto all = absl::MakeConstSpan(blocks);
  std::vector<DecoderSequence> sequences;
  if (decode) sequences.push_back({1, 1, true, all});
  if (chunk > 0) {
    sequences.push_back(
        {chunk, 0, true, all.subspan(static_cast<size_t>(of_decode))});
  }
  const std::vector<int32_t> tokens(
      static_cast<size_t>(chunk + (decode ? 1 : 0)), 0);
  DecoderBatch batch;
  batch.sequences = sequences;
  batch.tokens = tokens;
  if (!ValidateBatch(batch, options).ok()) return absl::OkStatus();
  DecoderOutput output;
  return runner.Run(batch, &output).status();
}

}  // namespace

absl::Status WarmUp(const DecoderOptions& options, BatchRunner& runner) {
  DecoderOptions settled = options;
  settled.num_blocks = runner.num_blocks();
  // Linear layers have other kernels in every bucket.
  for (const int64_t tokens : LinearBuckets(options.max_num_batched_tokens)) {
    if (tokens > 1) {
      RETURN_IF_ERROR(
          RunOne(settled, runner, static_cast<int32_t>(tokens), false));
    }
  }
  RETURN_IF_ERROR(RunOne(settled, runner, kChunkBesideDecode, true));
  return RunOne(settled, runner, 0, true);
}

}  // namespace interleave::sim
