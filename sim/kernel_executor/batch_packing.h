// A batch as one run of int32 that is uploaded at once, and the checks before:
// what a decoder does with a batch on the host.

#ifndef SIM_KERNEL_EXECUTOR_BATCH_PACKING_H_
#define SIM_KERNEL_EXECUTOR_BATCH_PACKING_H_

#include <cstdint>

#include "absl/status/status.h"
#include "sim/kernel_executor/batch_runner.h"
#include "sim/kernel_executor/decoder_options.h"

namespace interleave::sim {

// Where the arrays begin, in int32: the tokens, and behind them
struct PackedLayout {
  PackedLayout(int64_t rows, int64_t tokens, int64_t samples)
      : cu_tokens(tokens),
        lengths(cu_tokens + rows + 1),
        samples(lengths + rows),
        table_begin(this->samples + samples),
        entries(table_begin + rows + 1) {}

  // Of each sequence: its first token; all of them, at last.
  int64_t cu_tokens;
  // Of each sequence: its tokens with those computed now; -1: padding.
  int64_t lengths;
  // The tokens after which one is sampled.
  int64_t samples;
  // Of each sequence: its first block among the entries; all of them, at last.
  int64_t table_begin;
  // Block ids, one sequence's after the other.
  int64_t entries;
};

// InvalidArgument names what of the batch a decoder of these options, with
// num_blocks settled, does not take.
absl::Status ValidateBatch(const DecoderBatch& batch,
                           const DecoderOptions& options);

// Packs a valid batch into `packed`, filled up to `rows` sequences by ones of
// one token that have no slot in the cache; `tokens` and `samples` count theirs
// too. Returns how many int32 are used. REQUIRES: room for them; rows, tokens
// and samples are at least the batch's.
int64_t PackBatch(const DecoderBatch& batch, int32_t block_size, int64_t rows,
                  int64_t tokens, int64_t samples, int32_t* packed);

}  // namespace interleave::sim

#endif  // SIM_KERNEL_EXECUTOR_BATCH_PACKING_H_
