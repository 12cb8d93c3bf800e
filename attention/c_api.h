/* The attention API for C, and for whatever can call C.
 *
 *   InterleaveAttentionPlanConfig config = {0};
 *   config.size = sizeof(config);
 *   config.shape.num_heads = 32;                     ... and the other fields
 *   InterleaveAttentionPlan* plan = NULL;
 *   if (interleave_attention_plan_create(&config, NULL, 0, stream, &plan) != 0)
 *     fprintf(stderr, "%s\n", interleave_attention_last_error());
 *
 * paged_attention.h and params.h say what each call and each field means; the
 * names are the same here. A field left zero has the meaning given there, but
 * for the sides of a window, where -1 means unbounded and 0 one token alone.
 *
 * Rules
 * - Every function returns INTERLEAVE_ATTENTION_OK or an error, and enqueues
 *   nothing where it refuses an argument; interleave_attention_last_error then
 *   names the argument.
 * - The first field of a struct that a function takes is its size. Later
 *   versions add fields at the end alone, so a library takes a struct of its
 * own version or of an older one, and a newer one whose further fields are
 * zero. Structs within structs never change.
 * - `stream` is a cudaStream_t; NULL is the legacy default stream.
 * - Nothing is thrown and nothing is printed. A plan serves one stream at a
 *   time; other than that, calls may come from any thread.
 */

#ifndef ATTENTION_C_API_H_
#define ATTENTION_C_API_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Counts changes that break callers. */
#define INTERLEAVE_ATTENTION_ABI_VERSION 1

typedef enum {
  INTERLEAVE_ATTENTION_OK = 0,
  INTERLEAVE_ATTENTION_INVALID_ARGUMENT = 3,
  INTERLEAVE_ATTENTION_RESOURCE_EXHAUSTED = 8,
  INTERLEAVE_ATTENTION_FAILED_PRECONDITION = 9,
  INTERLEAVE_ATTENTION_OUT_OF_RANGE = 11,
  INTERLEAVE_ATTENTION_UNIMPLEMENTED = 12,
  INTERLEAVE_ATTENTION_INTERNAL = 13 /* a CUDA error among others */
} InterleaveAttentionStatus;

typedef enum {
  INTERLEAVE_ATTENTION_BFLOAT16 = 0,
  INTERLEAVE_ATTENTION_FLOAT16 = 1
} InterleaveAttentionDataType;

typedef struct InterleaveAttentionPlan InterleaveAttentionPlan;

/* Structs within structs. */

typedef struct {
  int32_t dtype; /* InterleaveAttentionDataType */
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t head_dim;
} InterleaveAttentionShape;

/* [tokens, heads, head_dim]; strides count elements. */
typedef struct {
  void* data;
  int64_t token_stride;
  int64_t head_stride;
} InterleaveAttentionTensor;

typedef struct {
  void* k;
  void* v;
  int64_t num_blocks;
  int64_t block_size;
  int64_t k_block_stride;
  int64_t k_slot_stride;
  int64_t k_head_stride;
  int64_t v_block_stride;
  int64_t v_slot_stride;
  int64_t v_head_stride;
} InterleaveAttentionCache;

typedef struct {
  const int32_t* data;
  int64_t row_stride;
  int64_t max_blocks_per_seq;
} InterleaveAttentionBlockTable;

typedef struct {
  float softmax_scale;
  float softcap;
  const float* sinks;
} InterleaveAttentionOptions;

typedef struct {
  const void* cos;
  const void* sin;
  int64_t max_position;
  int32_t rotary_dim;
  int32_t interleaved;
} InterleaveAttentionRotary;

/* Structs that functions take. */

typedef struct {
  uint64_t size; /* sizeof(InterleaveAttentionPlanConfig) */
  InterleaveAttentionShape shape;
  int32_t causal;
  int32_t window_left;  /* -1: unbounded */
  int32_t window_right; /* -1: unbounded */
  int32_t max_batch;
  int64_t max_total_q;
  int64_t max_total_new;
  int32_t batch_invariant;
  int32_t rotate_queries;
  int32_t portable_kernels; /* 1: no kernels but the portable ones */
  int32_t check_device_metadata;
  int32_t device;
  int32_t reserved; /* 0 */
} InterleaveAttentionPlanConfig;

typedef struct {
  uint64_t size; /* sizeof(InterleaveAttentionBatch) */
  int32_t batch;
  int32_t append;
  int64_t total_q;
  int64_t total_new;
  int64_t max_seqlen_k;
  const int32_t* cu_seqlens_q;
  const int32_t* cu_seqlens_k;
  const int32_t* cache_seqlens;
  const int32_t* cu_seqlens_new;
  /* The same in host memory, checked where not NULL: batch + 1 entries, and
   * batch of cache_seqlens. */
  const int32_t* host_cu_seqlens_q;
  const int32_t* host_cu_seqlens_k;
  const int32_t* host_cache_seqlens;
  const int32_t* host_cu_seqlens_new;
} InterleaveAttentionBatch;

typedef struct {
  uint64_t size; /* sizeof(InterleaveAttentionVarlenParams) */
  InterleaveAttentionTensor q;
  InterleaveAttentionTensor k;
  InterleaveAttentionTensor v;
  int64_t total_k;
  InterleaveAttentionTensor out;
  float* lse;
  int64_t lse_head_stride;
  InterleaveAttentionOptions options;
} InterleaveAttentionVarlenParams;

typedef struct {
  uint64_t size; /* sizeof(InterleaveAttentionPagedParams) */
  InterleaveAttentionTensor q;
  InterleaveAttentionCache cache;
  InterleaveAttentionBlockTable block_table;
  InterleaveAttentionTensor append_k;
  InterleaveAttentionTensor append_v;
  int64_t append_total_tokens;
  InterleaveAttentionRotary rotary;
  InterleaveAttentionTensor out;
  float* lse;
  int64_t lse_head_stride;
  InterleaveAttentionOptions options;
} InterleaveAttentionPagedParams;

typedef struct {
  uint64_t size; /* sizeof(InterleaveAttentionScatterParams) */
  InterleaveAttentionShape shape;
  InterleaveAttentionTensor k;
  InterleaveAttentionTensor v;
  int64_t total_tokens;
  const int64_t* slot_mapping;
  InterleaveAttentionCache cache;
} InterleaveAttentionScatterParams;

typedef struct {
  uint64_t size; /* sizeof(InterleaveAttentionGatherParams) */
  InterleaveAttentionShape shape;
  InterleaveAttentionCache cache;
  InterleaveAttentionBlockTable block_table;
  int64_t batch;
  const int32_t* cu_seqlens_k;
  int64_t total_k;
  InterleaveAttentionTensor k;
  InterleaveAttentionTensor v;
} InterleaveAttentionGatherParams;

typedef struct {
  uint64_t size; /* sizeof(InterleaveAttentionMergeParams) */
  InterleaveAttentionShape shape;
  int64_t total_q;
  InterleaveAttentionTensor a;
  const float* lse_a;
  InterleaveAttentionTensor b;
  const float* lse_b;
  InterleaveAttentionTensor out;
  float* lse;
} InterleaveAttentionMergeParams;

/* INTERLEAVE_ATTENTION_ABI_VERSION of the library. */
int32_t interleave_attention_abi_version(void);

/* What the last call of this thread that failed had to say; "" before any. It
 * stays valid until the thread's next failure. */
const char* interleave_attention_last_error(void);

int32_t interleave_attention_workspace_bytes(
    const InterleaveAttentionPlanConfig* config, int64_t* bytes);

/* A plan that works in `workspace`, which outlives it; where that is NULL, it
 * allocates and owns one, which no stream may be capturing meanwhile. */
int32_t interleave_attention_plan_create(
    const InterleaveAttentionPlanConfig* config, void* workspace,
    int64_t workspace_bytes, void* stream, InterleaveAttentionPlan** plan);

/* Once an iteration, before its layers. */
int32_t interleave_attention_plan_update(InterleaveAttentionPlan* plan,
                                         const InterleaveAttentionBatch* batch,
                                         void* stream);

/* Work that uses the plan, captured graphs too, has ended. NULL is fine. */
int32_t interleave_attention_plan_destroy(InterleaveAttentionPlan* plan);

int32_t interleave_attention_varlen_forward(
    InterleaveAttentionPlan* plan,
    const InterleaveAttentionVarlenParams* params, void* stream);
int32_t interleave_attention_decode_forward(
    InterleaveAttentionPlan* plan, const InterleaveAttentionPagedParams* params,
    void* stream);
int32_t interleave_attention_mixed_forward(
    InterleaveAttentionPlan* plan, const InterleaveAttentionPagedParams* params,
    void* stream);

int32_t interleave_attention_cache_scatter(
    const InterleaveAttentionScatterParams* params, int32_t device,
    void* stream);
int32_t interleave_attention_cache_gather(
    const InterleaveAttentionGatherParams* params, int32_t device,
    void* stream);
int32_t interleave_attention_merge_states(
    const InterleaveAttentionMergeParams* params, int32_t device, void* stream);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* ATTENTION_C_API_H_ */
