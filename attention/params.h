// The plain structs of the attention API: device pointers, sizes and strides.
// No CUDA header is needed to read them, so the CPU reference and the
// validation build where there is no toolkit.
//
// Conventions of every struct
// - Strides count elements, not bytes, and are 64-bit. The head_dim axis is
//   contiguous. Data of 16-bit tensors is 16-byte aligned, and its strides are
//   multiples of 8.
// - Nothing is owned: memory outlives the work enqueued on the stream.
// - Lengths and offsets that live on the device may change between replays of a
//   captured graph; sizes that live in these structs may not.

#ifndef ATTENTION_PARAMS_H_
#define ATTENTION_PARAMS_H_

#include <cstdint>

#include "absl/types/span.h"

namespace interleave::attention {

enum class DataType : int32_t { kBFloat16 = 0, kFloat16 = 1 };

// Shape of one layer's attention. num_heads is a multiple of num_kv_heads;
// query head h reads KV head h / (num_heads / num_kv_heads). head_dim is one of
// 64, 80, 96, 128, 192, 256.
struct AttentionShape {
  DataType dtype = DataType::kBFloat16;
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
};

// Which keys a query sees. With s = (keys of the sequence) - (queries of the
// sequence), query i sees key j iff i + s - window_left <= j <= i + s +
// window_right; -1 leaves a side unbounded. `causal` is window_right = 0
// (aligned to the bottom right).
struct AttentionMask {
  bool causal = false;
  int32_t window_left = -1;
  int32_t window_right = -1;
};

// [tokens, heads, head_dim], read or written.
struct InputTensor {
  const void* data = nullptr;
  int64_t token_stride = 0;
  int64_t head_stride = 0;
};
struct OutputTensor {
  void* data = nullptr;
  int64_t token_stride = 0;
  int64_t head_stride = 0;
};

// A paged cache of one layer: [num_blocks, block_size, num_kv_heads, head_dim]
// under any strides, so K and V may be views of one fused buffer and heads may
// come before slots. block_size is a power of two up to 1,024, or 48 or 480.
struct KvCache {
  void* k = nullptr;
  void* v = nullptr;
  int64_t num_blocks = 0;
  int32_t block_size = 0;
  int64_t k_block_stride = 0;
  int64_t k_slot_stride = 0;
  int64_t k_head_stride = 0;
  int64_t v_block_stride = 0;
  int64_t v_slot_stride = 0;
  int64_t v_head_stride = 0;
};

// int32 [batch, max_blocks_per_seq] on the device. Entries past what a length
// needs may be any number; an entry outside [0, num_blocks) is never
// dereferenced (it reads as zeros, and an append to it is dropped).
struct BlockTable {
  const int32_t* data = nullptr;
  int64_t row_stride = 0;
  int32_t max_blocks_per_seq = 0;
};

// What one launch computes, apart from the mask, which belongs to the plan.
struct AttentionOptions {
  // Multiplies the logits; 0 means 1 / sqrt(head_dim).
  float softmax_scale = 0.0f;
  // s becomes softcap * tanh(s / softcap) before masking; 0 means off.
  float softcap = 0.0f;
  // float [num_heads] on the device or null: a logit that joins the softmax's
  // denominator of every row that sees a key.
  const float* sinks = nullptr;
};

// Rotary embedding of appended keys and of queries (at their absolute
// positions). cos and sin are [max_position, rotary_dim / 2] in the layer's
// dtype, rows contiguous. `interleaved` pairs (2i, 2i + 1), otherwise
// (i, i + rotary_dim / 2).
struct Rotary {
  const void* cos = nullptr;
  const void* sin = nullptr;
  int32_t rotary_dim = 0;
  int64_t max_position = 0;
  bool interleaved = false;
};

// New keys and values to put into the cache before attention reads it. Row
// `first new token of the sequence + t` goes to position cache_seqlens + t.
struct AppendInput {
  InputTensor k;
  InputTensor v;
  int64_t total_tokens = 0;  // rows that k and v have
  Rotary rotary;             // off while cos is null
};

// The lengths of one iteration's batch, shared by its layers.
struct BatchMetadata {
  int32_t batch = 0;
  // Rows that q and out have. Rows past the last offset are not touched.
  int64_t total_q = 0;
  // int32 [batch + 1] on the device, exclusive prefix sums; plateaus are fine.
  // Null: one query token for each sequence.
  const int32_t* cu_seqlens_q = nullptr;

  // Contiguous keys (VarlenForward): int32 [batch + 1] on the device.
  const int32_t* cu_seqlens_k = nullptr;
  // Paged keys: int32 [batch] on the device, tokens in the cache before this
  // call's append; -1 marks a padding row (nothing read, nothing appended,
  // zeros out).
  const int32_t* cache_seqlens = nullptr;

  // Whether this iteration appends; with it, cu_seqlens_new int32 [batch + 1]
  // says which new tokens are whose. Null: they are the query tokens.
  bool append = false;
  const int32_t* cu_seqlens_new = nullptr;
  int64_t total_new = 0;  // rows of AppendInput; 0 with append means total_q

  // What no sequence's key length exceeds: total rows of k for contiguous keys,
  // max_blocks_per_seq * block_size for paged ones. Not a performance hint.
  int64_t max_seqlen_k = 0;

  // Copies of the above in host memory where the caller has them: they are
  // checked for monotonicity and bounds. Empty: not checked on the host.
  absl::Span<const int32_t> host_cu_seqlens_q;
  absl::Span<const int32_t> host_cu_seqlens_k;
  absl::Span<const int32_t> host_cache_seqlens;
  absl::Span<const int32_t> host_cu_seqlens_new;
};

// Which kernels a plan may use.
enum class KernelChoice : int32_t {
  kAuto = 0,      // the fastest that the device and the shape allow
  kPortable = 1,  // mma.sync kernels for sm_80 and later
};

// Everything that fixes the size of a plan.
struct PlanConfig {
  AttentionShape shape;
  AttentionMask mask;
  int32_t max_batch = 0;
  int64_t max_total_q = 0;
  int64_t max_total_new = 0;  // appended tokens; 0 means max_total_q
  // A sequence's output does not depend, bit for bit, on what shares its batch.
  bool batch_invariant = false;
  // Queries are rotated too (AppendInput::rotary), into the workspace.
  bool rotate_queries = false;
  KernelChoice kernels = KernelChoice::kAuto;
  // Debugging: Update and the forward calls also check metadata that lives on
  // the device, and wait for the stream to do so. Not under graph capture.
  bool check_device_metadata = false;
  int32_t device = 0;
};

// Path 1: contiguous keys and values. out [total_q, num_heads, head_dim]; lse
// float [num_heads, total_q] or null, natural log, -infinity for an empty row.
// With sinks, lse counts the sink in every row that is not empty.
struct VarlenParams {
  InputTensor q;
  InputTensor k;
  InputTensor v;
  int64_t total_k = 0;
  OutputTensor out;
  float* lse = nullptr;
  int64_t lse_head_stride = 0;  // 0 means total_q
  AttentionOptions options;
};

// Paths 2 and 3: keys and values through the block table, after the append.
struct PagedParams {
  InputTensor q;
  KvCache cache;
  BlockTable block_table;
  AppendInput append;  // used when the plan's batch appends
  OutputTensor out;
  float* lse = nullptr;
  int64_t lse_head_stride = 0;
  AttentionOptions options;
};

// Scatter: row t of k and v goes to slot slot_mapping[t] = block * block_size +
// slot (int64, on the device); negative ones are skipped.
struct ScatterParams {
  AttentionShape shape;
  InputTensor k;
  InputTensor v;
  int64_t total_tokens = 0;
  const int64_t* slot_mapping = nullptr;
  KvCache cache;
};

// Gather: the first cu_seqlens_k[b + 1] - cu_seqlens_k[b] tokens of sequence b
// go to rows from cu_seqlens_k[b] on of k and v.
struct GatherParams {
  AttentionShape shape;
  KvCache cache;
  BlockTable block_table;
  int32_t batch = 0;
  const int32_t* cu_seqlens_k = nullptr;
  int64_t total_k = 0;
  OutputTensor k;
  OutputTensor v;
};

// Combines attention over two disjoint sets of keys. lse_* are float
// [num_heads, total_q], natural log.
struct MergeParams {
  AttentionShape shape;
  int64_t total_q = 0;
  InputTensor a;
  const float* lse_a = nullptr;
  InputTensor b;
  const float* lse_b = nullptr;
  OutputTensor out;
  float* lse = nullptr;  // may be null
};

}  // namespace interleave::attention

#endif  // ATTENTION_PARAMS_H_
