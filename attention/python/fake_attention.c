/* Stands in for libinterleave_attention.so where there is no GPU: checks sizes,
 * and writes down what it is called with, field by field. */

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "attention/c_api.h"

static char log_text[1 << 16];
static size_t log_size;
static int32_t next_code;
static char message[256];
static int plans[1024];
static int num_plans;

/* For the test alone. */
const char* fake_log(void) { return log_text; }
void fake_clear(void) { log_text[log_size = 0] = 0; }
void fake_fail(int32_t code, const char* text) {
  next_code = code;
  snprintf(message, sizeof(message), "%s", text);
}

static void Log(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int size = vsnprintf(log_text + log_size, sizeof(log_text) - log_size,
                             format, arguments);
  va_end(arguments);
  if (size > 0) log_size += (size_t)size;
  if (log_size >= sizeof(log_text)) log_size = sizeof(log_text) - 1;
}

static int32_t Done(uint64_t size, size_t expected) {
  Log("\n");
  if (next_code != 0) {
    const int32_t code = next_code;
    next_code = 0;
    return code;
  }
  if (size == expected) return INTERLEAVE_ATTENTION_OK;
  snprintf(message, sizeof(message), "size is %" PRIu64 ", not %zu", size,
           expected);
  return INTERLEAVE_ATTENTION_INVALID_ARGUMENT;
}

#define NUMBER(struct, field) \
  Log(" " #field "=%lld", (long long)(struct)->field)
#define REAL(struct, field) Log(" " #field "=%g", (double)(struct)->field)
#define ADDRESS(struct, field) \
  Log(" " #field "=%lld", (long long)(intptr_t)(struct)->field)

static void LogTensor(const char* name, const InterleaveAttentionTensor* t) {
  Log(" %s=%lld:%lld:%lld", name, (long long)(intptr_t)t->data,
      (long long)t->token_stride, (long long)t->head_stride);
}

static void LogShape(const InterleaveAttentionShape* shape) {
  NUMBER(shape, dtype);
  NUMBER(shape, num_heads);
  NUMBER(shape, num_kv_heads);
  NUMBER(shape, head_dim);
}

static void LogCache(const InterleaveAttentionCache* cache) {
  Log(" cache.k=%lld cache.v=%lld", (long long)(intptr_t)cache->k,
      (long long)(intptr_t)cache->v);
  NUMBER(cache, num_blocks);
  NUMBER(cache, block_size);
  NUMBER(cache, k_block_stride);
  NUMBER(cache, k_slot_stride);
  NUMBER(cache, k_head_stride);
  NUMBER(cache, v_block_stride);
  NUMBER(cache, v_slot_stride);
  NUMBER(cache, v_head_stride);
}

static void LogTable(const InterleaveAttentionBlockTable* table) {
  Log(" block_table=%lld:%lld:%lld", (long long)(intptr_t)table->data,
      (long long)table->row_stride, (long long)table->max_blocks_per_seq);
}

static void LogOptions(const InterleaveAttentionOptions* options) {
  REAL(options, softmax_scale);
  REAL(options, softcap);
  ADDRESS(options, sinks);
}

int32_t interleave_attention_abi_version(void) {
  return INTERLEAVE_ATTENTION_ABI_VERSION;
}

const char* interleave_attention_last_error(void) { return message; }

int32_t interleave_attention_workspace_bytes(
    const InterleaveAttentionPlanConfig* config, int64_t* bytes) {
  Log("workspace_bytes");
  *bytes = 1;
  return Done(config->size, sizeof(*config));
}

int32_t interleave_attention_plan_create(
    const InterleaveAttentionPlanConfig* config, void* workspace,
    int64_t workspace_bytes, void* stream, InterleaveAttentionPlan** plan) {
  Log("plan_create workspace=%lld:%lld", (long long)(intptr_t)workspace,
      (long long)workspace_bytes);
  LogShape(&config->shape);
  NUMBER(config, causal);
  NUMBER(config, window_left);
  NUMBER(config, window_right);
  NUMBER(config, max_batch);
  NUMBER(config, max_total_q);
  NUMBER(config, max_total_new);
  NUMBER(config, batch_invariant);
  NUMBER(config, rotate_queries);
  NUMBER(config, portable_kernels);
  NUMBER(config, check_device_metadata);
  NUMBER(config, device);
  NUMBER(config, reserved);
  (void)stream;
  const int32_t code = Done(config->size, sizeof(*config));
  *plan = code == 0 ? (InterleaveAttentionPlan*)&plans[num_plans++ % 1024] : 0;
  return code;
}

int32_t interleave_attention_plan_update(InterleaveAttentionPlan* plan,
                                         const InterleaveAttentionBatch* batch,
                                         void* stream) {
  Log("plan_update plan=%d stream=%lld", (int)((int*)plan - plans),
      (long long)(intptr_t)stream);
  NUMBER(batch, batch);
  NUMBER(batch, append);
  NUMBER(batch, total_q);
  NUMBER(batch, total_new);
  NUMBER(batch, max_seqlen_k);
  ADDRESS(batch, cu_seqlens_q);
  ADDRESS(batch, cu_seqlens_k);
  ADDRESS(batch, cache_seqlens);
  ADDRESS(batch, cu_seqlens_new);
  ADDRESS(batch, host_cu_seqlens_q);
  ADDRESS(batch, host_cu_seqlens_k);
  ADDRESS(batch, host_cache_seqlens);
  ADDRESS(batch, host_cu_seqlens_new);
  return Done(batch->size, sizeof(*batch));
}

int32_t interleave_attention_plan_destroy(InterleaveAttentionPlan* plan) {
  Log("plan_destroy plan=%d", (int)((int*)plan - plans));
  return Done(0, 0);
}

int32_t interleave_attention_varlen_forward(
    InterleaveAttentionPlan* plan,
    const InterleaveAttentionVarlenParams* params, void* stream) {
  Log("varlen_forward plan=%d stream=%lld", (int)((int*)plan - plans),
      (long long)(intptr_t)stream);
  LogTensor("q", &params->q);
  LogTensor("k", &params->k);
  LogTensor("v", &params->v);
  NUMBER(params, total_k);
  LogTensor("out", &params->out);
  ADDRESS(params, lse);
  NUMBER(params, lse_head_stride);
  LogOptions(&params->options);
  return Done(params->size, sizeof(*params));
}

static int32_t Paged(const char* name, InterleaveAttentionPlan* plan,
                     const InterleaveAttentionPagedParams* params,
                     void* stream) {
  Log("%s plan=%d stream=%lld", name, (int)((int*)plan - plans),
      (long long)(intptr_t)stream);
  LogTensor("q", &params->q);
  LogCache(&params->cache);
  LogTable(&params->block_table);
  LogTensor("append_k", &params->append_k);
  LogTensor("append_v", &params->append_v);
  NUMBER(params, append_total_tokens);
  Log(" rotary=%lld:%lld:%lld:%d:%d", (long long)(intptr_t)params->rotary.cos,
      (long long)(intptr_t)params->rotary.sin,
      (long long)params->rotary.max_position, (int)params->rotary.rotary_dim,
      (int)params->rotary.interleaved);
  LogTensor("out", &params->out);
  ADDRESS(params, lse);
  NUMBER(params, lse_head_stride);
  LogOptions(&params->options);
  return Done(params->size, sizeof(*params));
}

int32_t interleave_attention_decode_forward(
    InterleaveAttentionPlan* plan, const InterleaveAttentionPagedParams* params,
    void* stream) {
  return Paged("decode_forward", plan, params, stream);
}

int32_t interleave_attention_mixed_forward(
    InterleaveAttentionPlan* plan, const InterleaveAttentionPagedParams* params,
    void* stream) {
  return Paged("mixed_forward", plan, params, stream);
}

int32_t interleave_attention_cache_scatter(
    const InterleaveAttentionScatterParams* params, int32_t device,
    void* stream) {
  Log("cache_scatter device=%d stream=%lld", (int)device,
      (long long)(intptr_t)stream);
  LogShape(&params->shape);
  LogTensor("k", &params->k);
  LogTensor("v", &params->v);
  NUMBER(params, total_tokens);
  ADDRESS(params, slot_mapping);
  LogCache(&params->cache);
  return Done(params->size, sizeof(*params));
}

int32_t interleave_attention_cache_gather(
    const InterleaveAttentionGatherParams* params, int32_t device,
    void* stream) {
  Log("cache_gather device=%d stream=%lld", (int)device,
      (long long)(intptr_t)stream);
  LogShape(&params->shape);
  LogCache(&params->cache);
  LogTable(&params->block_table);
  NUMBER(params, batch);
  ADDRESS(params, cu_seqlens_k);
  NUMBER(params, total_k);
  LogTensor("k", &params->k);
  LogTensor("v", &params->v);
  return Done(params->size, sizeof(*params));
}

int32_t interleave_attention_merge_states(
    const InterleaveAttentionMergeParams* params, int32_t device,
    void* stream) {
  Log("merge_states device=%d stream=%lld", (int)device,
      (long long)(intptr_t)stream);
  LogShape(&params->shape);
  NUMBER(params, total_q);
  LogTensor("a", &params->a);
  ADDRESS(params, lse_a);
  LogTensor("b", &params->b);
  ADDRESS(params, lse_b);
  LogTensor("out", &params->out);
  ADDRESS(params, lse);
  return Done(params->size, sizeof(*params));
}
