// Launchers of the decoder's own kernels, all of them bound by memory. Matrices
// are bf16, row-major and contiguous unless their comment says otherwise; row
// lengths are multiples of 8. Each enqueues on the stream and returns the
// launch error.

#ifndef SIM_KERNEL_EXECUTOR_DECODER_KERNELS_H_
#define SIM_KERNEL_EXECUTOR_DECODER_KERNELS_H_

#include <cstdint>

#include "cuda_runtime_api.h"
#include "sim/kernel_executor/stream_split.h"

namespace interleave::sim {

// One iteration's lengths as the host packed them, on the device.
struct PackedBatch {
  int32_t rows = 0;
  int32_t tokens = 0;
  const int32_t* token_ids = nullptr;  // [tokens]
  const int32_t* cu_tokens = nullptr;  // [rows + 1]
  // [rows]: tokens of the sequence with those computed now; -1: padding.
  const int32_t* lengths = nullptr;
  const int32_t* table_begin = nullptr;  // [rows + 1], into table_entries
  const int32_t* table_entries = nullptr;
};

// What every layer reads of them.
struct UnpackedBatch {
  int32_t* block_table = nullptr;  // [rows, table_stride]
  int32_t table_stride = 0;
  int32_t* positions = nullptr;  // [tokens]: of the token in its sequence
  // [tokens]: block * block_size + offset of the token's slot; -1: none.
  int32_t* slots = nullptr;
};

cudaError_t LaunchUnpack(const PackedBatch& packed, int32_t block_size,
                         const UnpackedBatch& unpacked, cudaStream_t stream);

// residual[t] = embedding[token_ids[t]]; out[t] = RMSNorm(residual[t]).
cudaError_t LaunchEmbedNorm(const int32_t* token_ids, int64_t tokens,
                            const void* embedding, const void* norm_weight,
                            int32_t hidden, float epsilon, void* residual,
                            void* out, cudaStream_t stream);

// What a linear layer leaves: a matrix, or, where that is null, partial sums.
struct LinearResult {
  const void* values = nullptr;
  const float* partials = nullptr;
  StreamSplit split;
};

// residual[t] += delta[t]; out[t] = RMSNorm(residual[t]).
cudaError_t LaunchAddNorm(const LinearResult& delta, int64_t tokens,
                          const void* norm_weight, int32_t hidden,
                          float epsilon, void* residual, void* out,
                          cudaStream_t stream);

// out[i] = RMSNorm(residual[rows[i]] + delta[rows[i]]); residual is kept.
cudaError_t LaunchGatherNorm(const LinearResult& delta, const void* residual,
                             const int32_t* rows, int64_t num_rows,
                             const void* norm_weight, int32_t hidden,
                             float epsilon, void* out, cudaStream_t stream);

// Rotates the query heads of qkv [tokens, heads + 2 kv_heads, head_dim] into
// `rotated`, of the same shape (and perhaps the same matrix), and its key heads
// on their way into the cache; values follow unrotated.
// k_cache and v_cache are [slots, kv_heads, head_dim]. Pairs are
// (i, i + head_dim / 2); cos_sin is float2 [positions, head_dim / 2]. head_dim
// is a multiple of 16. `ahead`: it may start while the kernel before it runs,
// which is the only one that it waits for.
struct RotaryShape {
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
};
cudaError_t LaunchRotaryAppend(const RotaryShape& shape,
                               const UnpackedBatch& batch, int64_t tokens,
                               const void* cos_sin, const LinearResult& qkv,
                               void* rotated, void* k_cache, void* v_cache,
                               bool ahead, cudaStream_t stream);

// out[t] = SiLU(gate[t]) * up[t], out of gate_up [tokens, 2 width], in which
// kGateUpRows numbers of gate and of up alternate; width is a multiple of them.
// Few tokens' linear layer does that itself (stream_linear.h).
cudaError_t LaunchSiluMul(const void* gate_up, int64_t tokens, int32_t width,
                          void* out, cudaStream_t stream);

// The largest of each row of float logits [rows, vocab], the first of equals,
// and by how much it passes the next. partials: PartialBytes(rows, vocab) of
// device memory. tokens and gaps [rows] may be mapped host memory.
int64_t ArgmaxPartialBytes(int64_t rows, int32_t vocab);
cudaError_t LaunchArgmax(const float* logits, int64_t rows, int32_t vocab,
                         void* partials, int32_t* tokens, float* gaps,
                         cudaStream_t stream);

// Approximately normal numbers with this mean and standard deviation, the same
// for the same seed; count is a multiple of 8.
cudaError_t LaunchFillNormal(void* data, int64_t count, float mean,
                             float deviation, uint64_t seed,
                             cudaStream_t stream);

// float2 [positions, head_dim / 2] of cos and sin(position / theta^(2i / d)).
cudaError_t LaunchRotaryTable(void* cos_sin, int64_t positions,
                              int32_t head_dim, double theta,
                              cudaStream_t stream);

// A device-to-device copy as plain as can be, for comparison; bytes is a
// multiple of 16.
cudaError_t LaunchCopy(const void* from, void* to, int64_t bytes,
                       cudaStream_t stream);

}  // namespace interleave::sim

#endif  // SIM_KERNEL_EXECUTOR_DECODER_KERNELS_H_
