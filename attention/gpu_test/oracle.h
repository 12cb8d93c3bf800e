// Naive kernels that GPU tests hold the real ones against, and helpers that
// fill and compare device memory. Nothing here is fast or clever on purpose.

#ifndef ATTENTION_GPU_TEST_ORACLE_H_
#define ATTENTION_GPU_TEST_ORACLE_H_

#include <cstdint>

#include "attention/params.h"
#include "attention/tile_schedule.h"
#include "cuda_runtime_api.h"

namespace interleave::attention {

// Attention by definition: one thread block a (token, head), double throughout.
struct OracleCall {
  AttentionShape shape;
  AttentionMask mask;
  AttentionOptions options;
  RawLengths lengths;  // device pointers
  InputTensor q;
  // Contiguous keys.
  InputTensor k;
  InputTensor v;
  // Paged keys, when block_table.data is set; already appended to.
  KvCache cache;
  BlockTable block_table;
  Rotary query_rotary;  // off while cos is null
  // Dense results [total_q, num_heads, head_dim] and [num_heads, total_q]. Rows
  // that no sequence owns get a NaN.
  double* exact = nullptr;
  double* exact_lse = nullptr;
  // The same as PyTorch's math backend computes it in the layer's type: logits,
  // probabilities and output each rounded to the type.
  double* rounded = nullptr;
};

cudaError_t LaunchOracle(const OracleCall& call, cudaStream_t stream);

// What a comparison with the oracle found.
struct Comparison {
  unsigned long long max_error_bits;    // of a double
  unsigned long long max_rounded_bits;  // the rounded computation's own error
  unsigned long long max_exact_bits;    // largest |exact|
  unsigned long long max_lse_error_bits;
  int32_t not_numbers;     // owned elements that are NaN or infinite
  int32_t touched;         // elements of unowned rows that were written
  int32_t lse_mismatches;  // infinities in the wrong place, NaNs
};

// Adds to *result (device memory, zeroed by the caller). `out` held kOutPoison
// everywhere before the call under test, lse (may be null) kLsePoison.
inline constexpr uint16_t kOutPoison = 0x7fc1;  // a NaN in bf16 and in fp16
inline constexpr uint32_t kLsePoison = 0x7fc12345u;
cudaError_t LaunchCompare(const OracleCall& call, const OutputTensor& out,
                          const float* lse, int64_t lse_head_stride,
                          Comparison* result, cudaStream_t stream);

// 16-bit values: normal-like numbers times amplitude, from a hash of the seed.
cudaError_t LaunchFillRandom(DataType type, void* data, int64_t count,
                             float amplitude, uint64_t seed,
                             cudaStream_t stream);
cudaError_t LaunchFill16(void* data, int64_t count, uint16_t value,
                         cudaStream_t stream);
cudaError_t LaunchFill32(void* data, int64_t count, uint32_t value,
                         cudaStream_t stream);

// Random numbers into the cached tokens (positions below the cached length) of
// every sequence, through the table.
cudaError_t LaunchFillCached(const AttentionShape& shape, const KvCache& cache,
                             const BlockTable& table, const RawLengths& lengths,
                             float amplitude, uint64_t seed,
                             cudaStream_t stream);

// Appends one element a thread, by definition. Keys are rotated in double.
cudaError_t LaunchNaiveAppend(const AttentionShape& shape, const KvCache& cache,
                              const BlockTable& table,
                              const RawLengths& lengths,
                              const AppendInput& append, cudaStream_t stream);

// Counts 16-bit words that differ by more than `ulps` (as integers).
cudaError_t LaunchCountDifferences(const void* a, const void* b, int64_t count,
                                   int32_t ulps, int32_t* differences,
                                   cudaStream_t stream);

}  // namespace interleave::attention

#endif  // ATTENTION_GPU_TEST_ORACLE_H_
