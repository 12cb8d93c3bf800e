#include <cuda_bf16.h>

#include <cstdint>

#include "attention/kernel_launch.cuh"
#include "base/mix64.h"
#include "sim/kernel_executor/decoder_kernels.h"
#include "sim/kernel_executor/silu.cuh"

namespace interleave::sim {
namespace {

using attention::AllowNextLaunch;
using attention::AwaitEarlierLaunch;
using attention::LaunchKernel;

constexpr int kVector = 8;  // bf16 of one 16-byte access
constexpr int kWarp = 32;
constexpr int kMaxThreads = 1024;

// Eight numbers as they lie in memory, and as floats.
struct Pack {
  uint4 bits;

  __device__ void Unpack(float (&out)[kVector]) const {
    const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      out[2 * i] = __uint_as_float(words[i] << 16);
      out[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
  }
};

__device__ uint32_t PackTwo(float low, float high) {
  const __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&two);
}

__device__ uint4 PackEight(const float (&x)[kVector]) {
  return {PackTwo(x[0], x[1]), PackTwo(x[2], x[3]), PackTwo(x[4], x[5]),
          PackTwo(x[6], x[7])};
}

__device__ const uint4* Vectors(const void* p) {
  return static_cast<const uint4*>(p);
}
__device__ uint4* Vectors(void* p) { return static_cast<uint4*>(p); }

// *p, or zeros. Never a branch, so that many loads are in flight.
__device__ __forceinline__ float4 LoadIf(bool there, const float* p) {
  float4 x;
  asm volatile(
      "{.reg .pred there;\n"
      "setp.ne.b32 there, %5, 0;\n"
      "mov.b32 %0, 0;\n"
      "mov.b32 %1, 0;\n"
      "mov.b32 %2, 0;\n"
      "mov.b32 %3, 0;\n"
      "@there ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];}\n"
      : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
      : "l"(p), "r"(static_cast<int>(there))
      : "memory");
  return x;
}

// Eight numbers of one row of a linear layer's result, from `column` on: Begin
// starts to read them, Finish has them. What begins together is in flight
// together. kSlots: partial sums read at once, which others follow.
template <bool kPartials, int kSlots>
class EightOf {
 public:
  __device__ __forceinline__ explicit EightOf(const LinearResult& result)
      : result_(result) {}

  __device__ __forceinline__ void Begin(int64_t row, int column, int width) {
    if constexpr (kPartials) {
      const StreamSplit& split = result_.split;
      const int tile = column / kStreamRows;
      slots_ = split.LastBlock(tile) - split.FirstBlock(tile) + 1;
      // Of at most kStreamTokens rows.
      place_ = static_cast<int>(row) * split.outputs + column;
      Read(0);
    } else {
      pack_.bits = Vectors(result_.values)[(row * width + column) / kVector];
    }
  }

  __device__ __forceinline__ void Finish(float (&out)[kVector]) {
    if constexpr (kPartials) {
#pragma unroll
      for (int j = 0; j < kVector; ++j) out[j] = 0.0f;
      AddTo(out);
      for (int s = kSlots; s < slots_; s += kSlots) {
        Read(s);
        AddTo(out);
      }
    } else {
      pack_.Unpack(out);
    }
  }

 private:
  __device__ __forceinline__ void Read(int first) {
#pragma unroll
    for (int j = 0; j < kSlots; ++j) {
      const bool there = first + j < slots_;
      const float* at =
          result_.partials + (first + j) * result_.split.slot_stride + place_;
      low_[j] = LoadIf(there, at);
      high_[j] = LoadIf(there, at + 4);
    }
  }
  __device__ __forceinline__ void AddTo(float (&out)[kVector]) const {
#pragma unroll
    for (int j = 0; j < kSlots; ++j) {
      out[0] += low_[j].x;
      out[1] += low_[j].y;
      out[2] += low_[j].z;
      out[3] += low_[j].w;
      out[4] += high_[j].x;
      out[5] += high_[j].y;
      out[6] += high_[j].z;
      out[7] += high_[j].w;
    }
  }

  const LinearResult& result_;
  Pack pack_;
  int place_;
  int slots_;
  float4 low_[kSlots];
  float4 high_[kSlots];
};

// The bound on threads, not all of which are used, that leaves each this many
// registers: many, so that all its loads are in flight together, but no more
// than there are beside a linear layer's block, so that a block is there before
// its turn comes and lets the next layer's weights be copied ahead.
template <int kRegisters>
struct BesideLinear {
  // Registers are given out to four warps at a time.
  static constexpr int kThreads = 65536 / kRegisters / (4 * kWarp) * 4 * kWarp;
};

// Sum over the block; every thread gets it.
__device__ float BlockSum(float x) {
  __shared__ float sums[kMaxThreads / kWarp];
  for (int d = kWarp / 2; d > 0; d /= 2) {
    x += __shfl_xor_sync(0xffffffffu, x, d);
  }
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = x;
  __syncthreads();
  const int warps = (blockDim.x + kWarp - 1) / kWarp;
  x = threadIdx.x % kWarp < warps ? sums[threadIdx.x % kWarp] : 0.0f;
  for (int d = kWarp / 2; d > 0; d /= 2) {
    x += __shfl_xor_sync(0xffffffffu, x, d);
  }
  return x;
}

// ---- Lengths ----

__global__ void __launch_bounds__(256)
    UnpackKernel(const PackedBatch packed, int32_t block_size,
                 const UnpackedBatch out) {
  const int row = blockIdx.x;
  const int32_t begin = packed.table_begin[row];
  const int32_t count = packed.table_begin[row + 1] - begin;
  const int32_t* entries = packed.table_entries + begin;
  int32_t* table = out.block_table + int64_t{row} * out.table_stride;
  for (int i = threadIdx.x; i < count; i += blockDim.x) table[i] = entries[i];
  const int32_t first = packed.cu_tokens[row];
  const int32_t tokens = packed.cu_tokens[row + 1] - first;
  const int32_t length = packed.lengths[row];
  for (int i = threadIdx.x; i < tokens; i += blockDim.x) {
    const int32_t position = length < 0 ? 0 : length - tokens + i;
    out.positions[first + i] = position;
    const int32_t block = position / block_size;
    out.slots[first + i] = length < 0 ? -1
                                      : entries[block] * block_size + position -
                                            block * block_size;
  }
}

// ---- Norms ----

constexpr int kNormThreads = 512;  // of a block, at most
constexpr int kNormSlots = 6;

// Where the numbers that are normalised come from, and which of them are kept.
enum class NormSource { kEmbedding, kResidual, kGathered };

// kVectors vectors a thread stay in registers between the two passes.
template <NormSource kSource, int kVectors, bool kPartials>
__global__ void __launch_bounds__((kPartials ? BesideLinear<80>::kThreads
                                             : kMaxThreads),
                                  1)
    NormKernel(const int32_t* rows, const LinearResult delta,
               const void* source, const void* weight, int32_t vectors,
               float epsilon, void* residual, void* out) {
  if (kPartials) AllowNextLaunch();
  Pack weights[kVectors];
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int i = threadIdx.x + v * blockDim.x;
    if (i < vectors) weights[v].bits = Vectors(weight)[i];
  }
  if (kPartials) AwaitEarlierLaunch();
  const int64_t t = blockIdx.x;
  const int64_t from = kSource == NormSource::kResidual ? t : rows[t];
  float x[kVectors][kVector];
  float squares = 0.0f;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int i = threadIdx.x + v * blockDim.x;
    if (i >= vectors) continue;
    const Pack base = {Vectors(source)[from * vectors + i]};
    base.Unpack(x[v]);
    if (kSource != NormSource::kEmbedding) {
      EightOf<kPartials, kNormSlots> eight(delta);
      eight.Begin(from, i * kVector, vectors * kVector);
      float d[kVector];
      eight.Finish(d);
#pragma unroll
      for (int j = 0; j < kVector; ++j) x[v][j] += d[j];
    }
    const Pack kept = {PackEight(x[v])};
    if (kSource != NormSource::kGathered) {
      Vectors(residual)[t * vectors + i] = kept.bits;
    }
    // What is normalised is what the residual holds.
    kept.Unpack(x[v]);
#pragma unroll
    for (int j = 0; j < kVector; ++j) squares += x[v][j] * x[v][j];
  }
  const float scale = rsqrtf(BlockSum(squares) / (vectors * kVector) + epsilon);
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int i = threadIdx.x + v * blockDim.x;
    if (i >= vectors) continue;
    float w[kVector];
    weights[v].Unpack(w);
#pragma unroll
    for (int j = 0; j < kVector; ++j) x[v][j] *= scale * w[j];
    Vectors(out)[t * vectors + i] = PackEight(x[v]);
  }
}

template <NormSource kSource, bool kPartials>
cudaError_t LaunchNorm(const int32_t* rows, int64_t tokens,
                       const LinearResult& delta, const void* source,
                       const void* weight, int32_t hidden, float epsilon,
                       void* residual, void* out, cudaStream_t stream) {
  if (tokens == 0) return cudaSuccess;
  const int32_t vectors = hidden / kVector;
  int threads = (vectors + kWarp - 1) / kWarp * kWarp;
  if (threads > kNormThreads) threads = kNormThreads;
  const int each = (vectors + threads - 1) / threads;
  if (each > 4) return cudaErrorInvalidValue;
  auto* kernel = NormKernel<kSource, 1, kPartials>;
  if (each > 2) {
    kernel = NormKernel<kSource, 4, kPartials>;
  } else if (each == 2) {
    kernel = NormKernel<kSource, 2, kPartials>;
  }
  const dim3 grid(static_cast<unsigned>(tokens));
  return LaunchKernel(
      kernel, {.grid = grid, .threads = threads, .early = kPartials}, stream,
      rows, delta, source, weight, vectors, epsilon, residual, out);
}

// ---- Rotary embedding ----

constexpr int kQkvSlots = 4;

// A unit is 8 numbers of a head's first half and their 8 partners.
// Where it reads a matrix, the bounds keep it to 32 registers, for as many
// loads in flight as there can be.
template <bool kPartials>
__global__ void __launch_bounds__((kPartials ? BesideLinear<96>::kThreads
                                             : 512),
                                  kPartials ? 1 : 4)
    RotaryAppendKernel(const RotaryShape shape, const UnpackedBatch batch,
                       const float4* cos_sin, const LinearResult qkv,
                       void* rotated, void* k_cache, void* v_cache) {
  if (kPartials) AllowNextLaunch();
  const int64_t t = blockIdx.x;
  const int half = shape.head_dim / 2 / kVector;  // vectors of half a head
  const int heads = shape.num_heads + 2 * shape.num_kv_heads;
  const int64_t slot = batch.slots[t];
  const float4* angles =
      cos_sin + int64_t{batch.positions[t]} * half * (kVector / 2);
  const int unit = blockIdx.y * blockDim.x + threadIdx.x;
  if (unit >= heads * half) return;
  const int head = unit / half;
  const int i = unit - head * half;
  const int width = heads * shape.head_dim;
  const int column = head * shape.head_dim + i * kVector;
  float4 turns[kVector / 2];
  const auto read_turns = [&] {
#pragma unroll
    for (int j = 0; j < kVector / 2; ++j) {
      turns[j] = __ldg(&angles[i * (kVector / 2) + j]);
    }
  };
  if (kPartials) {
    read_turns();
    AwaitEarlierLaunch();
  }
  EightOf<kPartials, kQkvSlots> first(qkv);
  EightOf<kPartials, kQkvSlots> second(qkv);
  first.Begin(t, column, width);
  second.Begin(t, column + shape.head_dim / 2, width);
  float x[kVector], y[kVector];
  first.Finish(x);
  second.Finish(y);
  const int kv_head = head - shape.num_heads;
  uint4* place = Vectors(rotated) + (t * width + column) / kVector;
  if (kv_head >= 0) {
    if (slot < 0) return;
    const bool value = kv_head >= shape.num_kv_heads;
    const int of_cache = value ? kv_head - shape.num_kv_heads : kv_head;
    place = Vectors(value ? v_cache : k_cache) +
            (slot * shape.num_kv_heads + of_cache) * 2 * half + i;
    if (value) {
      place[0] = PackEight(x);
      place[half] = PackEight(y);
      return;
    }
  }
  if (!kPartials) read_turns();
#pragma unroll
  for (int j = 0; j < kVector / 2; ++j) {
    const float4& a = turns[j];
    const float x0 = x[2 * j], y0 = y[2 * j];
    const float x1 = x[2 * j + 1], y1 = y[2 * j + 1];
    x[2 * j] = x0 * a.x - y0 * a.y;
    y[2 * j] = y0 * a.x + x0 * a.y;
    x[2 * j + 1] = x1 * a.z - y1 * a.w;
    y[2 * j + 1] = y1 * a.z + x1 * a.w;
  }
  place[0] = PackEight(x);
  place[half] = PackEight(y);
}

__global__ void RotaryTableKernel(float2* cos_sin, int64_t positions, int half,
                                  double theta) {
  const int64_t count = positions * half;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * blockDim.x) {
    const int pair = static_cast<int>(i % half);
    const double angle = static_cast<double>(i / half) *
                         exp(-log(theta) * pair / static_cast<double>(half));
    double sine;
    double cosine;
    sincos(angle, &sine, &cosine);
    cos_sin[i] = {static_cast<float>(cosine), static_cast<float>(sine)};
  }
}

// ---- MLP ----

constexpr int kSiluThreads = 256;
constexpr int kSiluVectors = 2;  // a thread, so that four loads are in flight

__global__ void __launch_bounds__(kSiluThreads)
    SiluMulKernel(const void* gate_up, int32_t vectors, void* out) {
  const int64_t t = blockIdx.x;
  static_assert(kGateUpRows == kVector);
  const uint4* from = Vectors(gate_up) + t * 2 * vectors;
  uint4* to = Vectors(out) + t * vectors;
  const int begin = blockIdx.y * blockDim.x * kSiluVectors + threadIdx.x;
  Pack gate[kSiluVectors];
  Pack up[kSiluVectors];
#pragma unroll
  for (int v = 0; v < kSiluVectors; ++v) {
    const int i = begin + v * blockDim.x;
    if (i >= vectors) continue;
    gate[v].bits = from[2 * i];
    up[v].bits = from[2 * i + 1];
  }
#pragma unroll
  for (int v = 0; v < kSiluVectors; ++v) {
    const int i = begin + v * blockDim.x;
    if (i >= vectors) continue;
    float g[kVector], u[kVector];
    gate[v].Unpack(g);
    up[v].Unpack(u);
#pragma unroll
    for (int j = 0; j < kVector; ++j) g[j] = Silu(g[j]) * u[j];
    to[i] = PackEight(g);
  }
}

// ---- Sampling ----

struct Best {
  float value;
  float next;
  int32_t index;
};

constexpr int kArgmaxThreads = 256;
constexpr int kArgmaxChunk = 4096;  // logits a block

__device__ Best Merge(const Best& a, const Best& b) {
  const bool first =
      a.value > b.value || (a.value == b.value && a.index < b.index);
  const Best& top = first ? a : b;
  const Best& other = first ? b : a;
  return {top.value, fmaxf(top.next, other.value), top.index};
}

__device__ Best Shuffle(const Best& a, int d) {
  return {__shfl_xor_sync(0xffffffffu, a.value, d),
          __shfl_xor_sync(0xffffffffu, a.next, d),
          __shfl_xor_sync(0xffffffffu, a.index, d)};
}

__device__ Best NoBest() {
  const float none = __int_as_float(0xff800000);
  return {none, none, 0x7fffffff};
}

__device__ Best BlockBest(Best best) {
  __shared__ Best all[kArgmaxThreads / kWarp];
  for (int d = kWarp / 2; d > 0; d /= 2) best = Merge(best, Shuffle(best, d));
  if (threadIdx.x % kWarp == 0) all[threadIdx.x / kWarp] = best;
  __syncthreads();
  best = threadIdx.x < kArgmaxThreads / kWarp ? all[threadIdx.x] : NoBest();
  for (int d = kWarp / 2; d > 0; d /= 2) best = Merge(best, Shuffle(best, d));
  return best;
}

__global__ void __launch_bounds__(kArgmaxThreads)
    ArgmaxChunkKernel(const float* logits, int32_t vocab, Best* partials) {
  const float* row = logits + int64_t{blockIdx.y} * vocab;
  const int begin = blockIdx.x * kArgmaxChunk;
  const int end = min(vocab, begin + kArgmaxChunk);
  Best best = NoBest();
  for (int i = begin + threadIdx.x * 4; i < end; i += kArgmaxThreads * 4) {
    const float4 four = *reinterpret_cast<const float4*>(row + i);
    const float values[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      best = Merge(best, {values[j], __int_as_float(0xff800000), i + j});
    }
  }
  best = BlockBest(best);
  if (threadIdx.x == 0) {
    partials[int64_t{blockIdx.y} * gridDim.x + blockIdx.x] = best;
  }
}

__global__ void __launch_bounds__(kArgmaxThreads)
    ArgmaxRowKernel(const Best* partials, int chunks, int32_t* tokens,
                    float* gaps) {
  Best best = NoBest();
  for (int i = threadIdx.x; i < chunks; i += kArgmaxThreads) {
    best = Merge(best, partials[int64_t{blockIdx.x} * chunks + i]);
  }
  best = BlockBest(best);
  if (threadIdx.x == 0) {
    tokens[blockIdx.x] = best.index;
    gaps[blockIdx.x] = best.value - best.next;
  }
}

// ---- Setting up ----

// Four 16-bit uniforms add up to a normal number, nearly.
__device__ float Normal(uint64_t bits) {
  const uint32_t sum = (bits & 0xffff) + (bits >> 16 & 0xffff) +
                       (bits >> 32 & 0xffff) + (bits >> 48);
  // Mean 2 * 65535, variance 4 * 65536^2 / 12.
  return (static_cast<float>(sum) - 131070.0f) * (1.7320508f / 65536.0f);
}

__global__ void FillNormalKernel(uint4* data, int64_t vectors, float mean,
                                 float deviation, uint64_t seed) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < vectors;
       i += int64_t{gridDim.x} * blockDim.x) {
    float x[kVector];
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      x[j] = mean + deviation * Normal(Mix64(seed + i * kVector + j + 1));
    }
    data[i] = PackEight(x);
  }
}

__global__ void CopyKernel(const uint4* from, uint4* to, int64_t vectors) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} * 4 + threadIdx.x;
  uint4 x[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if (i + j * blockDim.x < vectors) x[j] = from[i + j * blockDim.x];
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if (i + j * blockDim.x < vectors) to[i + j * blockDim.x] = x[j];
  }
}

int Chunks(int32_t vocab) { return (vocab + kArgmaxChunk - 1) / kArgmaxChunk; }

}  // namespace

cudaError_t LaunchUnpack(const PackedBatch& packed, int32_t block_size,
                         const UnpackedBatch& unpacked, cudaStream_t stream) {
  UnpackKernel<<<packed.rows, 256, 0, stream>>>(packed, block_size, unpacked);
  return cudaGetLastError();
}

cudaError_t LaunchEmbedNorm(const int32_t* token_ids, int64_t tokens,
                            const void* embedding, const void* norm_weight,
                            int32_t hidden, float epsilon, void* residual,
                            void* out, cudaStream_t stream) {
  return LaunchNorm<NormSource::kEmbedding, false>(
      token_ids, tokens, LinearResult(), embedding, norm_weight, hidden,
      epsilon, residual, out, stream);
}

cudaError_t LaunchAddNorm(const LinearResult& delta, int64_t tokens,
                          const void* norm_weight, int32_t hidden,
                          float epsilon, void* residual, void* out,
                          cudaStream_t stream) {
  auto* const launch = delta.values == nullptr
                           ? &LaunchNorm<NormSource::kResidual, true>
                           : &LaunchNorm<NormSource::kResidual, false>;
  return launch(nullptr, tokens, delta, residual, norm_weight, hidden, epsilon,
                residual, out, stream);
}

cudaError_t LaunchGatherNorm(const LinearResult& delta, const void* residual,
                             const int32_t* rows, int64_t num_rows,
                             const void* norm_weight, int32_t hidden,
                             float epsilon, void* out, cudaStream_t stream) {
  auto* const launch = delta.values == nullptr
                           ? &LaunchNorm<NormSource::kGathered, true>
                           : &LaunchNorm<NormSource::kGathered, false>;
  return launch(rows, num_rows, delta, residual, norm_weight, hidden, epsilon,
                nullptr, out, stream);
}

cudaError_t LaunchRotaryAppend(const RotaryShape& shape,
                               const UnpackedBatch& batch, int64_t tokens,
                               const void* cos_sin, const LinearResult& qkv,
                               void* rotated, void* k_cache, void* v_cache,
                               bool ahead, cudaStream_t stream) {
  const int units = (shape.num_heads + 2 * shape.num_kv_heads) *
                    (shape.head_dim / 2 / kVector);
  int threads = (units + kWarp - 1) / kWarp * kWarp;
  if (threads > 512) threads = 256;
  const dim3 grid(static_cast<unsigned>(tokens),
                  static_cast<unsigned>((units + threads - 1) / threads));
  const float4* angles = static_cast<const float4*>(cos_sin);
  const bool partials = qkv.values == nullptr;
  return LaunchKernel(
      partials ? &RotaryAppendKernel<true> : &RotaryAppendKernel<false>,
      {.grid = grid, .threads = threads, .early = partials && ahead}, stream,
      shape, batch, angles, qkv, rotated, k_cache, v_cache);
}

cudaError_t LaunchSiluMul(const void* gate_up, int64_t tokens, int32_t width,
                          void* out, cudaStream_t stream) {
  const int vectors = width / kVector;
  constexpr int kOfBlock = kSiluThreads * kSiluVectors;
  const dim3 grid(static_cast<unsigned>(tokens),
                  (vectors + kOfBlock - 1) / kOfBlock);
  SiluMulKernel<<<grid, kSiluThreads, 0, stream>>>(gate_up, vectors, out);
  return cudaGetLastError();
}

int64_t ArgmaxPartialBytes(int64_t rows, int32_t vocab) {
  return rows * Chunks(vocab) * static_cast<int64_t>(sizeof(Best));
}

cudaError_t LaunchArgmax(const float* logits, int64_t rows, int32_t vocab,
                         void* partials, int32_t* tokens, float* gaps,
                         cudaStream_t stream) {
  const dim3 grid(Chunks(vocab), static_cast<unsigned>(rows));
  Best* best = static_cast<Best*>(partials);
  ArgmaxChunkKernel<<<grid, kArgmaxThreads, 0, stream>>>(logits, vocab, best);
  ArgmaxRowKernel<<<static_cast<unsigned>(rows), kArgmaxThreads, 0, stream>>>(
      best, Chunks(vocab), tokens, gaps);
  return cudaGetLastError();
}

cudaError_t LaunchFillNormal(void* data, int64_t count, float mean,
                             float deviation, uint64_t seed,
                             cudaStream_t stream) {
  FillNormalKernel<<<2048, 256, 0, stream>>>(
      static_cast<uint4*>(data), count / kVector, mean, deviation, seed);
  return cudaGetLastError();
}

cudaError_t LaunchRotaryTable(void* cos_sin, int64_t positions,
                              int32_t head_dim, double theta,
                              cudaStream_t stream) {
  RotaryTableKernel<<<1024, 256, 0, stream>>>(static_cast<float2*>(cos_sin),
                                              positions, head_dim / 2, theta);
  return cudaGetLastError();
}

cudaError_t LaunchCopy(const void* from, void* to, int64_t bytes,
                       cudaStream_t stream) {
  const int64_t vectors = bytes / 16;
  CopyKernel<<<static_cast<unsigned>((vectors + 1023) / 1024), 256, 0,
               stream>>>(static_cast<const uint4*>(from),
                         static_cast<uint4*>(to), vectors);
  return cudaGetLastError();
}

}  // namespace interleave::sim
