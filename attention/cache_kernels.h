// Launchers of the kernels around attention: moving tokens into and out of the
// cache, rotary embedding, combining partial results.

#ifndef ATTENTION_CACHE_KERNELS_H_
#define ATTENTION_CACHE_KERNELS_H_

#include <cstdint>

#include "attention/kernel_params.h"
#include "attention/params.h"
#include "cuda_runtime_api.h"

namespace interleave::attention {

// Rows of contiguous K and V.
struct TokenRows {
  void* k = nullptr;
  void* v = nullptr;
  int64_t k_token_stride = 0;
  int64_t k_head_stride = 0;
  int64_t v_token_stride = 0;
  int64_t v_head_stride = 0;
  int64_t count = 0;
};

// How a row finds its slot in the cache; one of the three is set.
struct SlotSource {
  // Append: the plan's sequences and token_sequence, and the block table.
  const SequenceInfo* sequences = nullptr;
  const int32_t* token_sequence = nullptr;
  // Scatter.
  const int64_t* slot_mapping = nullptr;
  // Gather.
  const int32_t* cu_seqlens_k = nullptr;
  int32_t batch = 0;

  const int32_t* block_table = nullptr;
  int64_t block_table_stride = 0;
  int32_t max_blocks_per_seq = 0;
};

// Copies rows into the cache (or, with cu_seqlens_k, out of it); appended keys
// are rotated where rotary.cos is set.
cudaError_t LaunchMoveTokens(const AttentionShape& shape, const TokenRows& rows,
                             const SlotSource& source, const KvCache& cache,
                             const Rotary& rotary, int32_t num_sms,
                             cudaStream_t stream);

// out[t] = q[t] rotated at its position, for the rows that sequences own. out
// is [total_q, num_heads, head_dim], dense.
cudaError_t LaunchRotateQueries(const AttentionShape& shape,
                                const InputTensor& q, void* out,
                                const SequenceInfo* sequences, int32_t batch,
                                int64_t total_q, const Rotary& rotary,
                                int32_t num_sms, cudaStream_t stream);

// Combines the partial results of params.schedule.combines into out and lse.
// early: may start while the launch before still runs (Hopper and later).
cudaError_t LaunchCombine(const KernelParams& params, bool early,
                          cudaStream_t stream);

cudaError_t LaunchMergeStates(const MergeParams& params, int32_t num_sms,
                              cudaStream_t stream);

}  // namespace interleave::attention

#endif  // ATTENTION_CACHE_KERNELS_H_
