/* Prints where the compiler puts the fields of c_api.h's structs, a line each:
 *
 *   PlanConfig shape 8 16 struct
 *
 * which is the struct, the field, its offset, its size and its kind; then the
 * size of each whole struct, with "-" for a field. */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "attention/c_api.h"

#define KIND(value)                                  \
  _Generic((value), float                            \
           : "float", int32_t                        \
           : "int", int64_t                          \
           : "int", uint64_t                         \
           : "unsigned", InterleaveAttentionShape    \
           : "struct", InterleaveAttentionTensor     \
           : "struct", InterleaveAttentionCache      \
           : "struct", InterleaveAttentionBlockTable \
           : "struct", InterleaveAttentionOptions    \
           : "struct", InterleaveAttentionRotary     \
           : "struct", default                       \
           : "pointer")

#define FIELD(type, field)                               \
  printf(#type " " #field " %zu %zu %s\n",               \
         offsetof(InterleaveAttention##type, field),     \
         sizeof(((InterleaveAttention##type*)0)->field), \
         KIND(((InterleaveAttention##type*)0)->field))

#define WHOLE(type) \
  printf(#type " - 0 %zu struct\n", sizeof(InterleaveAttention##type))

static void PrintInnerStructs(void) {
  FIELD(Shape, dtype);
  FIELD(Shape, num_heads);
  FIELD(Shape, num_kv_heads);
  FIELD(Shape, head_dim);
  WHOLE(Shape);
  FIELD(Tensor, data);
  FIELD(Tensor, token_stride);
  FIELD(Tensor, head_stride);
  WHOLE(Tensor);
  FIELD(Cache, k);
  FIELD(Cache, v);
  FIELD(Cache, num_blocks);
  FIELD(Cache, block_size);
  FIELD(Cache, k_block_stride);
  FIELD(Cache, k_slot_stride);
  FIELD(Cache, k_head_stride);
  FIELD(Cache, v_block_stride);
  FIELD(Cache, v_slot_stride);
  FIELD(Cache, v_head_stride);
  WHOLE(Cache);
  FIELD(BlockTable, data);
  FIELD(BlockTable, row_stride);
  FIELD(BlockTable, max_blocks_per_seq);
  WHOLE(BlockTable);
  FIELD(Options, softmax_scale);
  FIELD(Options, softcap);
  FIELD(Options, sinks);
  WHOLE(Options);
  FIELD(Rotary, cos);
  FIELD(Rotary, sin);
  FIELD(Rotary, max_position);
  FIELD(Rotary, rotary_dim);
  FIELD(Rotary, interleaved);
  WHOLE(Rotary);
}

static void PrintPlanStructs(void) {
  FIELD(PlanConfig, size);
  FIELD(PlanConfig, shape);
  FIELD(PlanConfig, causal);
  FIELD(PlanConfig, window_left);
  FIELD(PlanConfig, window_right);
  FIELD(PlanConfig, max_batch);
  FIELD(PlanConfig, max_total_q);
  FIELD(PlanConfig, max_total_new);
  FIELD(PlanConfig, batch_invariant);
  FIELD(PlanConfig, rotate_queries);
  FIELD(PlanConfig, portable_kernels);
  FIELD(PlanConfig, check_device_metadata);
  FIELD(PlanConfig, device);
  FIELD(PlanConfig, reserved);
  WHOLE(PlanConfig);
  FIELD(Batch, size);
  FIELD(Batch, batch);
  FIELD(Batch, append);
  FIELD(Batch, total_q);
  FIELD(Batch, total_new);
  FIELD(Batch, max_seqlen_k);
  FIELD(Batch, cu_seqlens_q);
  FIELD(Batch, cu_seqlens_k);
  FIELD(Batch, cache_seqlens);
  FIELD(Batch, cu_seqlens_new);
  FIELD(Batch, host_cu_seqlens_q);
  FIELD(Batch, host_cu_seqlens_k);
  FIELD(Batch, host_cache_seqlens);
  FIELD(Batch, host_cu_seqlens_new);
  WHOLE(Batch);
}

static void PrintForwardStructs(void) {
  FIELD(VarlenParams, size);
  FIELD(VarlenParams, q);
  FIELD(VarlenParams, k);
  FIELD(VarlenParams, v);
  FIELD(VarlenParams, total_k);
  FIELD(VarlenParams, out);
  FIELD(VarlenParams, lse);
  FIELD(VarlenParams, lse_head_stride);
  FIELD(VarlenParams, options);
  WHOLE(VarlenParams);
  FIELD(PagedParams, size);
  FIELD(PagedParams, q);
  FIELD(PagedParams, cache);
  FIELD(PagedParams, block_table);
  FIELD(PagedParams, append_k);
  FIELD(PagedParams, append_v);
  FIELD(PagedParams, append_total_tokens);
  FIELD(PagedParams, rotary);
  FIELD(PagedParams, out);
  FIELD(PagedParams, lse);
  FIELD(PagedParams, lse_head_stride);
  FIELD(PagedParams, options);
  WHOLE(PagedParams);
}

static void PrintMoveStructs(void) {
  FIELD(ScatterParams, size);
  FIELD(ScatterParams, shape);
  FIELD(ScatterParams, k);
  FIELD(ScatterParams, v);
  FIELD(ScatterParams, total_tokens);
  FIELD(ScatterParams, slot_mapping);
  FIELD(ScatterParams, cache);
  WHOLE(ScatterParams);
  FIELD(GatherParams, size);
  FIELD(GatherParams, shape);
  FIELD(GatherParams, cache);
  FIELD(GatherParams, block_table);
  FIELD(GatherParams, batch);
  FIELD(GatherParams, cu_seqlens_k);
  FIELD(GatherParams, total_k);
  FIELD(GatherParams, k);
  FIELD(GatherParams, v);
  WHOLE(GatherParams);
  FIELD(MergeParams, size);
  FIELD(MergeParams, shape);
  FIELD(MergeParams, total_q);
  FIELD(MergeParams, a);
  FIELD(MergeParams, lse_a);
  FIELD(MergeParams, b);
  FIELD(MergeParams, lse_b);
  FIELD(MergeParams, out);
  FIELD(MergeParams, lse);
  WHOLE(MergeParams);
}

int main(void) {
  PrintInnerStructs();
  PrintPlanStructs();
  PrintForwardStructs();
  PrintMoveStructs();
  return 0;
}
