#include "sim/kernel_executor/batch_packing.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/ceil_div.h"
#include "sim/kernel_executor/batch_runner.h"
#include "sim/kernel_executor/decoder_options.h"

namespace interleave::sim {

absl::Status ValidateBatch(const DecoderBatch& batch,
                           const DecoderOptions& options) {
  const auto refuse = [](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(parts...));
  };
  const int64_t rows = static_cast<int64_t>(batch.sequences.size());
  if (rows == 0 || rows > options.max_num_seqs) {
    return refuse("the batch has ", rows, " sequences; the decoder takes 1 to ",
                  options.max_num_seqs);
  }
  if (batch.layers < 0 || batch.layers > options.shape.num_layers) {
    return refuse("the batch asks for ", batch.layers, " layers of ",
                  options.shape.num_layers);
  }
  int64_t tokens = 0;
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    const DecoderSequence& sequence = batch.sequences[i];
    if (sequence.num_tokens < 1 || sequence.cached_tokens < 0) {
      return refuse("sequence ", i, " has ", sequence.num_tokens,
                    " tokens to compute and ", sequence.cached_tokens,
                    " in the cache");
    }
    const int64_t length =
        int64_t{sequence.cached_tokens} + sequence.num_tokens;
    if (length > CeilDiv(options.max_model_len, options.block_size) *
                     options.block_size) {
      return refuse("sequence ", i, " grows to ", length,
                    " tokens, past max_model_len ", options.max_model_len);
    }
    const int64_t blocks = CeilDiv(length, options.block_size);
    if (static_cast<int64_t>(sequence.blocks.size()) < blocks) {
      return refuse("sequence ", i, " has ", sequence.blocks.size(),
                    " blocks; its ", length, " tokens take ", blocks);
    }
    for (int64_t b = 0; b < blocks; ++b) {
      const int32_t block = sequence.blocks[static_cast<size_t>(b)];
      if (block >= 0 && block < options.num_blocks) continue;
      return refuse("block ", b, " of sequence ", i, " is ", block,
                    ", outside the cache of ", options.num_blocks, " blocks");
    }
    tokens += sequence.num_tokens;
  }
  if (tokens > options.max_num_batched_tokens ||
      tokens != static_cast<int64_t>(batch.tokens.size())) {
    return refuse("the sequences compute ", tokens, " tokens and ",
                  batch.tokens.size(), " are given; the decoder takes at most ",
                  options.max_num_batched_tokens);
  }
  for (const int32_t token : batch.tokens) {
    if (token < 0 || token >= options.shape.vocab_size) {
      return refuse("token ", token, " is outside the vocabulary of ",
                    options.shape.vocab_size);
    }
  }
  return absl::OkStatus();
}

int64_t PackBatch(const DecoderBatch& batch, int32_t block_size, int64_t rows,
                  int64_t tokens, int64_t samples, int32_t* packed) {
  const PackedLayout at(rows, tokens, samples);
  std::memcpy(packed, batch.tokens.data(), batch.tokens.size() * 4);
  int32_t token = 0;
  int32_t entry = 0;
  int64_t sample = at.samples;
  const int64_t given = static_cast<int64_t>(batch.sequences.size());
  for (int64_t row = 0; row < given; ++row) {
    const DecoderSequence& sequence = batch.sequences[static_cast<size_t>(row)];
    const int32_t length = sequence.cached_tokens + sequence.num_tokens;
    const int32_t blocks = static_cast<int32_t>(CeilDiv(length, block_size));
    packed[at.cu_tokens + row] = token;
    packed[at.lengths + row] = length;
    packed[at.table_begin + row] = entry;
    std::memcpy(packed + at.entries + entry, sequence.blocks.data(),
                static_cast<size_t>(blocks) * 4);
    entry += blocks;
    token += sequence.num_tokens;
    if (sequence.sample) packed[sample++] = token - 1;
  }
  // The rows that fill a graph's batch up: one token each, without a slot.
  for (int64_t row = given; row < rows; ++row) {
    packed[token] = 0;
    packed[at.cu_tokens + row] = token;
    packed[at.lengths + row] = -1;
    packed[at.table_begin + row] = entry;
    packed[sample++] = token++;
  }
  packed[at.cu_tokens + rows] = token;
  packed[at.table_begin + rows] = entry;
  return at.entries + entry;
}

}  // namespace interleave::sim
