#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "attention/gpu_test/oracle.h"
#include "attention/params.h"
#include "attention/tile_schedule.h"
#include "base/mix64.h"

namespace interleave::attention {
namespace {

constexpr int kOracleThreads = 128;
constexpr int kChunk = 512;  // keys whose weights lie in shared memory at once
constexpr int kMaxHeadDim = 256;

__device__ double Value(DataType type, uint16_t bits) {
  if (type == DataType::kBFloat16) {
    return __uint_as_float(static_cast<uint32_t>(bits) << 16);
  }
  return __half2float(__ushort_as_half(bits));
}

__device__ uint16_t Bits(DataType type, double value) {
  if (type == DataType::kBFloat16) {
    return __bfloat16_as_ushort(__double2bfloat16(value));
  }
  return __half_as_ushort(__double2half(value));
}

__device__ double Rounded(DataType type, double value) {
  return Value(type, Bits(type, value));
}

__device__ double MinusInfinity() {
  return -__longlong_as_double(0x7ff0000000000000ll);
}

// The sequence that owns query row t, or -1.
__device__ int32_t OwnerOf(const RawLengths& lengths, int64_t t) {
  if (lengths.cu_seqlens_q == nullptr) return t < lengths.batch ? t : -1;
  int32_t low = 0;
  int32_t high = lengths.batch;
  while (high - low > 1) {
    const int32_t middle = low + (high - low) / 2;
    if (lengths.cu_seqlens_q[middle] <= t) {
      low = middle;
    } else {
      high = middle;
    }
  }
  if (lengths.batch == 0 || t < lengths.cu_seqlens_q[low] ||
      t >= lengths.cu_seqlens_q[low + 1]) {
    return -1;
  }
  return low;
}

struct Pointers {
  const uint16_t* k;
  const uint16_t* v;
};

__device__ Pointers FindKey(const OracleCall& call, const SequenceInfo& s,
                            int32_t sequence, int64_t position, int head) {
  if (call.block_table.data == nullptr) {
    const int64_t row = s.k_begin + position;
    return {static_cast<const uint16_t*>(call.k.data) +
                row * call.k.token_stride + head * call.k.head_stride,
            static_cast<const uint16_t*>(call.v.data) +
                row * call.v.token_stride + head * call.v.head_stride};
  }
  const KvCache& cache = call.cache;
  const int64_t block =
      call.block_table.data[sequence * call.block_table.row_stride +
                            position / cache.block_size];
  const int64_t slot = position % cache.block_size;
  return {static_cast<const uint16_t*>(cache.k) + block * cache.k_block_stride +
              slot * cache.k_slot_stride + head * cache.k_head_stride,
          static_cast<const uint16_t*>(cache.v) + block * cache.v_block_stride +
              slot * cache.v_slot_stride + head * cache.v_head_stride};
}

// Element d of a row rotated at a position.
__device__ double RotatedElement(DataType type, const Rotary& rotary,
                                 const uint16_t* row, int64_t position, int d) {
  if (d >= rotary.rotary_dim) return Value(type, row[d]);
  const int half = rotary.rotary_dim / 2;
  const int pair = rotary.interleaved ? d / 2 : d % half;
  const bool second = rotary.interleaved ? d % 2 == 1 : d >= half;
  const double x = Value(type, row[rotary.interleaved ? 2 * pair : pair]);
  const double y =
      Value(type, row[rotary.interleaved ? 2 * pair + 1 : pair + half]);
  const double c = Value(
      type, static_cast<const uint16_t*>(rotary.cos)[position * half + pair]);
  const double s = Value(
      type, static_cast<const uint16_t*>(rotary.sin)[position * half + pair]);
  return Rounded(type, second ? x * s + y * c : x * c - y * s);
}

__device__ double BlockReduce(double x, bool max, double* scratch) {
  scratch[threadIdx.x] = x;
  __syncthreads();
  for (int step = kOracleThreads / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) {
      const double other = scratch[threadIdx.x + step];
      const double own = scratch[threadIdx.x];
      scratch[threadIdx.x] = max ? fmax(own, other) : own + other;
    }
    __syncthreads();
  }
  const double result = scratch[0];
  __syncthreads();
  return result;
}

// A logit, exactly and with the roundings of a 16-bit computation.
struct Logits {
  double exact;
  double rounded;
};

__device__ Logits LogitOf(const OracleCall& call, double scale,
                          const double* query, const uint16_t* key) {
  double dot = 0;
  for (int d = 0; d < call.shape.head_dim; d += 8) {
    const uint4 eight = *reinterpret_cast<const uint4*>(key + d);
    const uint16_t* values = reinterpret_cast<const uint16_t*>(&eight);
    for (int i = 0; i < 8; ++i) {
      dot += query[d + i] * Value(call.shape.dtype, values[i]);
    }
  }
  Logits logits = {dot * scale, Rounded(call.shape.dtype, dot * scale)};
  const double cap = call.options.softcap;
  if (cap > 0) {
    logits.exact = cap * tanh(logits.exact / cap);
    logits.rounded =
        Rounded(call.shape.dtype, cap * tanh(logits.rounded / cap));
  }
  return logits;
}

__global__ void __launch_bounds__(kOracleThreads)
    OracleKernel(const OracleCall call) {
  __shared__ double query[kMaxHeadDim];
  __shared__ double scratch[kOracleThreads];
  __shared__ double weights[2][kChunk];
  __shared__ const uint16_t* values[kChunk];
  const AttentionShape& shape = call.shape;
  const int64_t t = blockIdx.x / shape.num_heads;
  const int head = blockIdx.x % shape.num_heads;
  const int kv_head = head / (shape.num_heads / shape.num_kv_heads);
  const int tid = threadIdx.x;
  double* exact = call.exact + blockIdx.x * int64_t{shape.head_dim};
  double* rounded = call.rounded + blockIdx.x * int64_t{shape.head_dim};
  double* lse = call.exact_lse + head * call.lengths.total_q + t;
  const int32_t owner = OwnerOf(call.lengths, t);
  if (owner < 0) {
    for (int d = tid; d < shape.head_dim; d += kOracleThreads) {
      exact[d] = rounded[d] = nan("");
    }
    if (tid == 0) *lse = nan("");
    return;
  }
  const SequenceInfo s = ReadSequence(call.lengths, owner);
  const int64_t token = t - s.q_begin;
  const int64_t diagonal = token + s.k_len - s.q_len;
  int64_t begin = 0;
  int64_t end = s.k_len;
  const int64_t right = call.mask.causal ? 0 : call.mask.window_right;
  if (call.mask.window_left >= 0 && diagonal - call.mask.window_left > begin) {
    begin = diagonal - call.mask.window_left;
  }
  if (right >= 0 && diagonal + right + 1 < end) end = diagonal + right + 1;
  if (begin >= end) {
    for (int d = tid; d < shape.head_dim; d += kOracleThreads) {
      exact[d] = rounded[d] = 0;
    }
    if (tid == 0) *lse = MinusInfinity();
    return;
  }
  const uint16_t* q = static_cast<const uint16_t*>(call.q.data) +
                      t * call.q.token_stride + head * call.q.head_stride;
  for (int d = tid; d < shape.head_dim; d += kOracleThreads) {
    query[d] = call.query_rotary.cos != nullptr
                   ? RotatedElement(shape.dtype, call.query_rotary, q,
                                    s.append_pos + token, d)
                   : Value(shape.dtype, q[d]);
  }
  __syncthreads();
  const double scale = call.options.softmax_scale != 0
                           ? double{call.options.softmax_scale}
                           : rsqrt(double(shape.head_dim));
  const bool has_sink = call.options.sinks != nullptr;
  const double sink = has_sink ? call.options.sinks[head] : MinusInfinity();
  double top[2] = {sink, sink};
  for (int64_t j = begin + tid; j < end; j += kOracleThreads) {
    const Logits x =
        LogitOf(call, scale, query, FindKey(call, s, owner, j, kv_head).k);
    top[0] = fmax(top[0], x.exact);
    top[1] = fmax(top[1], x.rounded);
  }
  for (double& x : top) x = BlockReduce(x, true, scratch);
  double sum[2] = {0, 0};
  for (int64_t j = begin + tid; j < end; j += kOracleThreads) {
    const Logits x =
        LogitOf(call, scale, query, FindKey(call, s, owner, j, kv_head).k);
    sum[0] += exp(x.exact - top[0]);
    sum[1] += exp(x.rounded - top[1]);
  }
  for (int i = 0; i < 2; ++i) {
    sum[i] = BlockReduce(sum[i], false, scratch);
    if (has_sink) sum[i] += exp(sink - top[i]);
  }
  double out[2][2] = {{0, 0}, {0, 0}};
  for (int64_t base = begin; base < end; base += kChunk) {
    const int64_t left = end - base;
    const int count = left < kChunk ? left : kChunk;
    for (int i = tid; i < count; i += kOracleThreads) {
      const Pointers key = FindKey(call, s, owner, base + i, kv_head);
      const Logits x = LogitOf(call, scale, query, key.k);
      values[i] = key.v;
      weights[0][i] = exp(x.exact - top[0]) / sum[0];
      weights[1][i] = Rounded(shape.dtype, exp(x.rounded - top[1]) / sum[1]);
    }
    __syncthreads();
    for (int half = 0; half < 2; ++half) {
      const int d = tid + half * kOracleThreads;
      if (d >= shape.head_dim) continue;
#pragma unroll 8
      for (int i = 0; i < count; ++i) {
        const double value = Value(shape.dtype, values[i][d]);
        out[0][half] += weights[0][i] * value;
        out[1][half] += weights[1][i] * value;
      }
    }
    __syncthreads();
  }
  for (int half = 0; half < 2; ++half) {
    const int d = tid + half * kOracleThreads;
    if (d >= shape.head_dim) continue;
    exact[d] = out[0][half];
    rounded[d] = Rounded(shape.dtype, out[1][half]);
  }
  if (tid == 0) *lse = top[0] + log(sum[0]);
}

__device__ void Raise(unsigned long long* most, double value) {
  // Bits of non-negative doubles order as the doubles do.
  atomicMax(most, static_cast<unsigned long long>(__double_as_longlong(value)));
}

__global__ void CompareKernel(const OracleCall call, const OutputTensor out,
                              const float* lse, int64_t lse_head_stride,
                              Comparison* result) {
  const AttentionShape& shape = call.shape;
  const int64_t t = blockIdx.x / shape.num_heads;
  const int head = blockIdx.x % shape.num_heads;
  const double* exact = call.exact + blockIdx.x * int64_t{shape.head_dim};
  const double* rounded = call.rounded + blockIdx.x * int64_t{shape.head_dim};
  const uint16_t* row = static_cast<const uint16_t*>(out.data) +
                        t * out.token_stride + head * out.head_stride;
  double error = 0;
  double rounded_error = 0;
  double most = 0;
  for (int d = threadIdx.x; d < shape.head_dim; d += 32) {
    if (isnan(exact[d])) {
      if (row[d] != kOutPoison) atomicAdd(&result->touched, 1);
      continue;
    }
    const double value = Value(shape.dtype, row[d]);
    if (!isfinite(value)) {
      atomicAdd(&result->not_numbers, 1);
      continue;
    }
    error = fmax(error, fabs(value - exact[d]));
    rounded_error = fmax(rounded_error, fabs(rounded[d] - exact[d]));
    most = fmax(most, fabs(exact[d]));
  }
  for (int step = 16; step > 0; step /= 2) {
    error = fmax(error, __shfl_xor_sync(0xffffffffu, error, step));
    rounded_error =
        fmax(rounded_error, __shfl_xor_sync(0xffffffffu, rounded_error, step));
    most = fmax(most, __shfl_xor_sync(0xffffffffu, most, step));
  }
  if (threadIdx.x != 0) return;
  Raise(&result->max_error_bits, error);
  Raise(&result->max_rounded_bits, rounded_error);
  Raise(&result->max_exact_bits, most);
  if (lse == nullptr) return;
  const float found = lse[head * lse_head_stride + t];
  const double wanted = call.exact_lse[head * call.lengths.total_q + t];
  if (isnan(wanted)) {
    if (__float_as_uint(found) != kLsePoison) atomicAdd(&result->touched, 1);
  } else if (isinf(wanted) || !isfinite(found)) {
    if (!(isinf(wanted) && isinf(found) && found < 0)) {
      atomicAdd(&result->lse_mismatches, 1);
    }
  } else {
    Raise(&result->max_lse_error_bits,
          fabs(found - wanted) / fmax(1.0, fabs(wanted)));
  }
}

__device__ uint64_t Hash(uint64_t x) { return Mix64(x + kMix64Step); }

// Mean 0, variance 1: four uniform numbers.
__device__ uint16_t RandomBits(DataType type, float amplitude, uint64_t seed,
                               uint64_t index) {
  const uint64_t h = Hash(seed ^ Hash(index));
  float sum = 0;
  for (int i = 0; i < 4; ++i) {
    sum += static_cast<float>((h >> (16 * i)) & 0xffff) / 65536.0f - 0.5f;
  }
  return Bits(type, sum * 1.7320508f * amplitude);
}

__global__ void FillRandomKernel(DataType type, uint16_t* data, int64_t count,
                                 float amplitude, uint64_t seed) {
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * blockDim.x) {
    data[i] = RandomBits(type, amplitude, seed, i);
  }
}

template <typename T>
__global__ void FillKernel(T* data, int64_t count, T value) {
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * blockDim.x) {
    data[i] = value;
  }
}

__global__ void FillCachedKernel(const AttentionShape shape,
                                 const KvCache cache, const BlockTable table,
                                 const RawLengths lengths, float amplitude,
                                 uint64_t seed) {
  const int64_t elements = int64_t{shape.num_kv_heads} * shape.head_dim;
  for (int32_t b = blockIdx.y; b < lengths.batch; b += gridDim.y) {
    const int64_t length = lengths.cache_seqlens[b];
    for (int64_t j = blockIdx.x; j < length; j += gridDim.x) {
      const int64_t block =
          table.data[b * table.row_stride + j / cache.block_size];
      const int64_t slot = j % cache.block_size;
      for (int64_t i = threadIdx.x; i < elements; i += blockDim.x) {
        const int64_t head = i / shape.head_dim;
        const int64_t d = i % shape.head_dim;
        // By place, so that sequences that share a block agree.
        const uint64_t index = (block * cache.block_size + slot) * elements + i;
        static_cast<uint16_t*>(
            cache.k)[block * cache.k_block_stride + slot * cache.k_slot_stride +
                     head * cache.k_head_stride + d] =
            RandomBits(shape.dtype, amplitude, seed, 2 * index);
        static_cast<uint16_t*>(
            cache.v)[block * cache.v_block_stride + slot * cache.v_slot_stride +
                     head * cache.v_head_stride + d] =
            RandomBits(shape.dtype, 1.0f, seed, 2 * index + 1);
      }
    }
  }
}

__global__ void NaiveAppendKernel(const AttentionShape shape,
                                  const KvCache cache, const BlockTable table,
                                  const RawLengths lengths,
                                  const AppendInput append) {
  const int32_t b = blockIdx.x;
  const SequenceInfo s = ReadSequence(lengths, b);
  const int elements = shape.num_kv_heads * shape.head_dim;
  for (int t = blockIdx.y; t < s.new_len; t += gridDim.y) {
    const int64_t position = int64_t{s.append_pos} + t;
    const int64_t block =
        table.data[b * table.row_stride + position / cache.block_size];
    const int64_t slot = position % cache.block_size;
    for (int i = threadIdx.x; i < elements; i += blockDim.x) {
      const int head = i / shape.head_dim;
      const int d = i % shape.head_dim;
      const uint16_t* k = static_cast<const uint16_t*>(append.k.data) +
                          (s.new_begin + int64_t{t}) * append.k.token_stride +
                          head * append.k.head_stride;
      const uint16_t* v = static_cast<const uint16_t*>(append.v.data) +
                          (s.new_begin + int64_t{t}) * append.v.token_stride +
                          head * append.v.head_stride;
      static_cast<uint16_t*>(
          cache.k)[block * cache.k_block_stride + slot * cache.k_slot_stride +
                   head * cache.k_head_stride + d] =
          append.rotary.cos == nullptr
              ? k[d]
              : Bits(shape.dtype, RotatedElement(shape.dtype, append.rotary, k,
                                                 position, d));
      static_cast<uint16_t*>(
          cache.v)[block * cache.v_block_stride + slot * cache.v_slot_stride +
                   head * cache.v_head_stride + d] = v[d];
    }
  }
}

__global__ void CountDifferencesKernel(const uint16_t* a, const uint16_t* b,
                                       int64_t count, int32_t ulps,
                                       int32_t* differences) {
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * blockDim.x) {
    const int32_t x = a[i];
    const int32_t y = b[i];
    if (x == y) continue;
    // Zeros of both signs count as equal where an ulp is allowed.
    const bool zeros = ((x | y) & 0x7fff) <= ulps;
    if (abs(x - y) > ulps && !(ulps > 0 && zeros)) atomicAdd(differences, 1);
  }
}

constexpr int kFillBlocks = 1056;
constexpr int kFillThreads = 256;

}  // namespace

cudaError_t LaunchOracle(const OracleCall& call, cudaStream_t stream) {
  const int64_t blocks = call.lengths.total_q * call.shape.num_heads;
  if (blocks == 0) return cudaSuccess;
  OracleKernel<<<static_cast<unsigned>(blocks), kOracleThreads, 0, stream>>>(
      call);
  return cudaGetLastError();
}

cudaError_t LaunchCompare(const OracleCall& call, const OutputTensor& out,
                          const float* lse, int64_t lse_head_stride,
                          Comparison* result, cudaStream_t stream) {
  const int64_t blocks = call.lengths.total_q * call.shape.num_heads;
  if (blocks == 0) return cudaSuccess;
  CompareKernel<<<static_cast<unsigned>(blocks), 32, 0, stream>>>(
      call, out, lse, lse_head_stride, result);
  return cudaGetLastError();
}

cudaError_t LaunchFillRandom(DataType type, void* data, int64_t count,
                             float amplitude, uint64_t seed,
                             cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  FillRandomKernel<<<kFillBlocks, kFillThreads, 0, stream>>>(
      type, static_cast<uint16_t*>(data), count, amplitude, seed);
  return cudaGetLastError();
}

cudaError_t LaunchFill16(void* data, int64_t count, uint16_t value,
                         cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  FillKernel<<<kFillBlocks, kFillThreads, 0, stream>>>(
      static_cast<uint16_t*>(data), count, value);
  return cudaGetLastError();
}

cudaError_t LaunchFill32(void* data, int64_t count, uint32_t value,
                         cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  FillKernel<<<kFillBlocks, kFillThreads, 0, stream>>>(
      static_cast<uint32_t*>(data), count, value);
  return cudaGetLastError();
}

cudaError_t LaunchFillCached(const AttentionShape& shape, const KvCache& cache,
                             const BlockTable& table, const RawLengths& lengths,
                             float amplitude, uint64_t seed,
                             cudaStream_t stream) {
  if (lengths.batch == 0) return cudaSuccess;
  const int rows = lengths.batch < 1024 ? lengths.batch : 1024;
  FillCachedKernel<<<dim3(64, rows), kFillThreads, 0, stream>>>(
      shape, cache, table, lengths, amplitude, seed);
  return cudaGetLastError();
}

cudaError_t LaunchNaiveAppend(const AttentionShape& shape, const KvCache& cache,
                              const BlockTable& table,
                              const RawLengths& lengths,
                              const AppendInput& append, cudaStream_t stream) {
  if (lengths.batch == 0) return cudaSuccess;
  NaiveAppendKernel<<<dim3(lengths.batch, 64), kFillThreads, 0, stream>>>(
      shape, cache, table, lengths, append);
  return cudaGetLastError();
}

cudaError_t LaunchCountDifferences(const void* a, const void* b, int64_t count,
                                   int32_t ulps, int32_t* differences,
                                   cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  CountDifferencesKernel<<<kFillBlocks, kFillThreads, 0, stream>>>(
      static_cast<const uint16_t*>(a), static_cast<const uint16_t*>(b), count,
      ulps, differences);
  return cudaGetLastError();
}

}  // namespace interleave::attention
