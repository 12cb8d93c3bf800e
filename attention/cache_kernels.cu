#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "attention/cache_kernels.h"
#include "attention/kernel_launch.cuh"
#include "attention/kernel_params.h"
#include "attention/tile_schedule.h"

namespace interleave::attention {
namespace {

constexpr int kThreads = 256;
constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;
// Rows that a block looks up at once: few for appends, whose latency counts.
constexpr int kAppendRows = 4;
constexpr int kBulkRows = 32;

__device__ float NegativeInfinity() { return __int_as_float(0xff800000); }

__device__ float ToFloat(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ float ToFloat(__half x) { return __half2float(x); }
template <typename T>
__device__ T FromFloat(float x);
template <>
__device__ __nv_bfloat16 FromFloat(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ __half FromFloat(float x) {
  return __float2half_rn(x);
}

// A slot of the cache; block -1 for none.
struct Place {
  int64_t block;
  int32_t slot;
  int32_t position;
};

__device__ int32_t LastAtMost(const int32_t* begin, int32_t n, int64_t x) {
  int32_t low = 0;
  int32_t high = n;
  while (high - low > 1) {
    const int32_t middle = low + (high - low) / 2;
    if (begin[middle] <= x) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

__device__ Place PlaceOf(const SlotSource& source, const KvCache& cache,
                         int64_t row) {
  constexpr Place kNone = {-1, 0, 0};
  if (source.slot_mapping != nullptr) {
    const int64_t slot = source.slot_mapping[row];
    if (slot < 0 || slot >= cache.num_blocks * cache.block_size) return kNone;
    return {slot / cache.block_size,
            static_cast<int32_t>(slot % cache.block_size), 0};
  }
  int32_t sequence;
  int32_t position;
  if (source.cu_seqlens_k != nullptr) {
    if (source.batch == 0) return kNone;
    sequence = LastAtMost(source.cu_seqlens_k, source.batch, row);
    if (row < source.cu_seqlens_k[sequence] ||
        row >= source.cu_seqlens_k[sequence + 1]) {
      return kNone;
    }
    position = static_cast<int32_t>(row - source.cu_seqlens_k[sequence]);
  } else {
    sequence = source.token_sequence[row];
    if (sequence < 0) return kNone;
    const SequenceInfo s = source.sequences[sequence];
    position = s.append_pos + static_cast<int32_t>(row) - s.new_begin;
  }
  const int32_t page = position / cache.block_size;
  if (page >= source.max_blocks_per_seq) return kNone;
  const int64_t block =
      source.block_table[sequence * source.block_table_stride + page];
  if (block < 0 || block >= cache.num_blocks) return kNone;
  return {block, position % cache.block_size, position};
}

template <typename T>
__device__ void RotatePair(const Rotary& rotary, int64_t position, int pair,
                           const T* in, T* out) {
  const int half = rotary.rotary_dim / 2;
  const int first = rotary.interleaved ? 2 * pair : pair;
  const int second = rotary.interleaved ? 2 * pair + 1 : pair + half;
  const int64_t row = position < rotary.max_position ? position : 0;
  const float cosine =
      ToFloat(static_cast<const T*>(rotary.cos)[row * half + pair]);
  const float sine =
      ToFloat(static_cast<const T*>(rotary.sin)[row * half + pair]);
  const float x = ToFloat(in[first]);
  const float y = ToFloat(in[second]);
  out[first] = FromFloat<T>(x * cosine - y * sine);
  out[second] = FromFloat<T>(x * sine + y * cosine);
}

// Rotates the first rotary_dim elements of a row of head_dim, copies the rest.
// `unit` counts pairs first, then the rest two at a time.
template <typename T>
__device__ void RotateUnit(const Rotary& rotary, int64_t position, int unit,
                           const T* in, T* out) {
  if (unit < rotary.rotary_dim / 2) {
    RotatePair(rotary, position, unit, in, out);
  } else {
    out[2 * unit] = in[2 * unit];
    out[2 * unit + 1] = in[2 * unit + 1];
  }
}

// uint16_t stands for either 16-bit type where bits are only moved; T is used
// for rotary alone.
template <typename T, int kRows>
__global__ void __launch_bounds__(kThreads)
    MoveTokensKernel(const AttentionShape shape, const TokenRows rows,
                     const SlotSource source, const KvCache cache,
                     const Rotary rotary) {
  __shared__ Place places[kRows];
  const bool gather = source.cu_seqlens_k != nullptr;
  const bool rotate = rotary.cos != nullptr;
  const int chunks = shape.head_dim / 8;
  const int chunks_of_row = shape.num_kv_heads * chunks;
  T* row_k = static_cast<T*>(rows.k);
  T* row_v = static_cast<T*>(rows.v);
  T* cache_k = static_cast<T*>(cache.k);
  T* cache_v = static_cast<T*>(cache.v);
  for (int64_t first = int64_t{blockIdx.x} * kRows; first < rows.count;
       first += int64_t{gridDim.x} * kRows) {
    const int64_t left = rows.count - first;
    const int count = static_cast<int>(left < kRows ? left : kRows);
    __syncthreads();
    if (threadIdx.x < count) {
      places[threadIdx.x] = PlaceOf(source, cache, first + threadIdx.x);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < count * chunks_of_row; i += kThreads) {
      const Place place = places[i / chunks_of_row];
      if (place.block < 0) continue;
      const int64_t row = first + i / chunks_of_row;
      const int head = (i % chunks_of_row) / chunks;
      const int column = i % chunks * 8;
      T* v_row = row_v + row * rows.v_token_stride + head * rows.v_head_stride +
                 column;
      T* v_slot = cache_v + place.block * cache.v_block_stride +
                  place.slot * cache.v_slot_stride +
                  head * cache.v_head_stride + column;
      *reinterpret_cast<uint4*>(gather ? v_row : v_slot) =
          *reinterpret_cast<const uint4*>(gather ? v_slot : v_row);
      if (rotate) continue;
      T* k_row = row_k + row * rows.k_token_stride + head * rows.k_head_stride +
                 column;
      T* k_slot = cache_k + place.block * cache.k_block_stride +
                  place.slot * cache.k_slot_stride +
                  head * cache.k_head_stride + column;
      *reinterpret_cast<uint4*>(gather ? k_row : k_slot) =
          *reinterpret_cast<const uint4*>(gather ? k_slot : k_row);
    }
    if (!rotate) continue;
    const int units = shape.head_dim / 2;
    const int units_of_row = shape.num_kv_heads * units;
    for (int i = threadIdx.x; i < count * units_of_row; i += kThreads) {
      const Place place = places[i / units_of_row];
      if (place.block < 0) continue;
      const int64_t row = first + i / units_of_row;
      const int head = (i % units_of_row) / units;
      RotateUnit(rotary, place.position, i % units,
                 row_k + row * rows.k_token_stride + head * rows.k_head_stride,
                 cache_k + place.block * cache.k_block_stride +
                     place.slot * cache.k_slot_stride +
                     head * cache.k_head_stride);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    RotateQueriesKernel(const AttentionShape shape, const InputTensor q, T* out,
                        const SequenceInfo* sequences, int32_t batch,
                        int64_t total_q, const Rotary rotary) {
  __shared__ int64_t position;
  const int units = shape.head_dim / 2;
  for (int64_t t = blockIdx.x; t < total_q; t += gridDim.x) {
    __syncthreads();
    if (threadIdx.x == 0) {
      int32_t low = 0;
      int32_t high = batch;
      while (high - low > 1) {
        const int32_t middle = low + (high - low) / 2;
        if (sequences[middle].q_begin <= t) {
          low = middle;
        } else {
          high = middle;
        }
      }
      const SequenceInfo s = sequences[low];
      const bool owned = t >= s.q_begin && t < int64_t{s.q_begin} + s.q_len;
      position = owned ? s.append_pos + t - s.q_begin : -1;
    }
    __syncthreads();
    if (position < 0) continue;
    for (int i = threadIdx.x; i < shape.num_heads * units; i += kThreads) {
      const int head = i / units;
      RotateUnit(rotary, position, i % units,
                 static_cast<const T*>(q.data) + t * q.token_stride +
                     head * q.head_stride,
                 out + (t * shape.num_heads + head) * shape.head_dim);
    }
  }
}

// Partial results of one row whose loads are in flight together.
constexpr int kTogether = 4;

// Adds those of a row from `slot` on, which are `stride` slots apart. Lane l
// has the weight of the l-th of them; the one at `slot` is number `number`.
__device__ __forceinline__ void AddPartials(const KernelParams& params,
                                            int64_t slot, int stride,
                                            float weights, int number,
                                            float4 (&sum)[2], float& total) {
  const int lane = threadIdx.x % 32;
  float weight[kTogether];
  float4 part[kTogether][2];
#pragma unroll
  for (int j = 0; j < kTogether; ++j) {
    weight[j] = __shfl_sync(0xffffffffu, weights, number + j);
    const float4* from = reinterpret_cast<const float4*>(
        params.schedule.partial_out +
        (slot + int64_t{j} * stride) * params.head_dim);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int vector = lane + 32 * i;
      // What has no weight may be unwritten, or beyond the last one.
      const bool counts = weight[j] != 0.0f && vector < params.head_dim / 4;
      part[j][i] = counts ? from[vector] : float4{0, 0, 0, 0};
    }
  }
#pragma unroll
  for (int j = 0; j < kTogether; ++j) {
    total += weight[j];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      sum[i].x += weight[j] * part[j][i].x;
      sum[i].y += weight[j] * part[j][i].y;
      sum[i].z += weight[j] * part[j][i].z;
      sum[i].w += weight[j] * part[j][i].w;
    }
  }
}

// One warp a row.
template <typename T>
__device__ void CombineRow(const KernelParams& params, const CombineItem& item,
                           int row) {
  const int lane = threadIdx.x % 32;
  const int packed = item.row_begin + row;
  const int token = params.group_divisor.Divide(packed);
  const int head =
      item.kv_head * params.group_size + packed - token * params.group_size;
  const int64_t q_row =
      int64_t{params.schedule.sequences[item.batch].q_begin} + token;
  const int64_t first = int64_t{item.partial_row} + row;
  const float* lses = params.schedule.partial_lse;
  float top = NegativeInfinity();
  for (int s = lane; s < item.num_splits; s += 32) {
    top = fmaxf(top, lses[first + int64_t{s} * item.row_count]);
  }
  for (int d = 16; d > 0; d /= 2) {
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, d));
  }
  const bool empty = top == NegativeInfinity();
  float total = 0.0f;
  float sink_weight = 0.0f;
  if (!empty && params.sinks != nullptr) {
    top = fmaxf(top, params.sinks[head]);
    sink_weight = exp2f((params.sinks[head] - top) * kLog2E);
  }
  T* out = static_cast<T*>(params.out) + q_row * params.out_token_stride +
           head * params.out_head_stride;
  // head_dim is at most 256: two vectors of four a lane.
  float4 sum[2] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
  for (int begin = 0; begin < item.num_splits && !empty; begin += 32) {
    const int count = min(32, item.num_splits - begin);
    const int64_t slot = first + int64_t{begin} * item.row_count;
    const float weights =
        lane < count
            ? exp2f((lses[slot + int64_t{lane} * item.row_count] - top) *
                    kLog2E)
            : 0.0f;
    for (int s = 0; s < count; s += kTogether) {
      AddPartials(params, slot + int64_t{s} * item.row_count, item.row_count,
                  weights, s, sum, total);
    }
  }
  total += sink_weight;
  const float scale = empty ? 0.0f : 1.0f / total;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int vector = lane + 32 * i;
    if (vector >= params.head_dim / 4) continue;
    T four[4] = {FromFloat<T>(sum[i].x * scale), FromFloat<T>(sum[i].y * scale),
                 FromFloat<T>(sum[i].z * scale),
                 FromFloat<T>(sum[i].w * scale)};
    *reinterpret_cast<uint2*>(out + 4 * vector) =
        *reinterpret_cast<const uint2*>(four);
  }
  if (lane == 0 && params.lse != nullptr) {
    params.lse[head * params.lse_head_stride + q_row] =
        empty ? NegativeInfinity() : top + log2f(total) * kLn2;
  }
}

// Among how many a tile's rows are shared where a batch has prefill tiles.
constexpr int kPrefillParts = 8;

// Starts while the attention kernel may still run, and as a rule with nothing
// to do: it waits itself, and lets the launch behind start and wait likewise.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    CombineKernel(const __grid_constant__ KernelParams params) {
  AllowNextLaunch();
  AwaitEarlierLaunch();
  const int found = params.schedule.header->num_combines;
  const int count = min(found, params.schedule.max_combines);
  // Four warps an item, which of a decode has as many rows as there are query
  // heads to a KV head. Those of prefill have many, and may be few: their rows
  // are shared among several.
  constexpr int kRowsAtOnce = 4;
  constexpr int kItemsAtOnce = kThreads / 32 / kRowsAtOnce;
  const bool prefill =
      params.schedule.header->num_items[static_cast<int>(Role::kPrefill)] > 0;
  const int parts = prefill ? kPrefillParts : 1;
  const int warp = threadIdx.x / 32;
  for (int i = blockIdx.x * kItemsAtOnce + warp / kRowsAtOnce;
       i < count * parts; i += gridDim.x * kItemsAtOnce) {
    const CombineItem item = params.schedule.combines[i % count];
    for (int row = i / count * kRowsAtOnce + warp % kRowsAtOnce;
         row < item.row_count; row += parts * kRowsAtOnce) {
      CombineRow<T>(params, item, row);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    MergeStatesKernel(const MergeParams params) {
  const int lane = threadIdx.x % 32;
  const int64_t warps = int64_t{gridDim.x} * (kThreads / 32);
  const int64_t rows = params.total_q * params.shape.num_heads;
  for (int64_t i = int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
       i < rows; i += warps) {
    const int64_t token = i / params.shape.num_heads;
    const int head = static_cast<int>(i % params.shape.num_heads);
    const int64_t at = head * params.total_q + token;
    const float lse_a = params.lse_a[at];
    const float lse_b = params.lse_b[at];
    const float top = fmaxf(lse_a, lse_b);
    const bool empty = top == NegativeInfinity();
    const float weight_a = empty ? 0.0f : exp2f((lse_a - top) * kLog2E);
    const float weight_b = empty ? 0.0f : exp2f((lse_b - top) * kLog2E);
    const float total = weight_a + weight_b;
    const float scale = empty ? 0.0f : 1.0f / total;
    const T* a = static_cast<const T*>(params.a.data) +
                 token * params.a.token_stride + head * params.a.head_stride;
    const T* b = static_cast<const T*>(params.b.data) +
                 token * params.b.token_stride + head * params.b.head_stride;
    T* out = static_cast<T*>(params.out.data) +
             token * params.out.token_stride + head * params.out.head_stride;
    for (int d = lane; d < params.shape.head_dim; d += 32) {
      // A side without weight may hold anything.
      float x = 0.0f;
      if (weight_a != 0.0f) x += weight_a * ToFloat(a[d]);
      if (weight_b != 0.0f) x += weight_b * ToFloat(b[d]);
      out[d] = FromFloat<T>(x * scale);
    }
    if (lane == 0 && params.lse != nullptr) {
      params.lse[at] = empty ? NegativeInfinity() : top + log2f(total) * kLn2;
    }
  }
}

unsigned Blocks(int64_t wanted, int64_t most) {
  return static_cast<unsigned>(Clamp(wanted, 1, most));
}

template <typename T>
cudaError_t MoveTokens(const AttentionShape& shape, const TokenRows& rows,
                       const SlotSource& source, const KvCache& cache,
                       const Rotary& rotary, int32_t num_sms,
                       cudaStream_t stream) {
  if (source.token_sequence != nullptr && rows.count < kBulkRows * num_sms) {
    const unsigned blocks =
        Blocks(CeilDiv(rows.count, kAppendRows), int64_t{8} * num_sms);
    MoveTokensKernel<T, kAppendRows>
        <<<blocks, kThreads, 0, stream>>>(shape, rows, source, cache, rotary);
  } else {
    const unsigned blocks =
        Blocks(CeilDiv(rows.count, kBulkRows), int64_t{8} * num_sms);
    MoveTokensKernel<T, kBulkRows>
        <<<blocks, kThreads, 0, stream>>>(shape, rows, source, cache, rotary);
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchMoveTokens(const AttentionShape& shape, const TokenRows& rows,
                             const SlotSource& source, const KvCache& cache,
                             const Rotary& rotary, int32_t num_sms,
                             cudaStream_t stream) {
  if (rows.count == 0) return cudaSuccess;
  return shape.dtype == DataType::kBFloat16
             ? MoveTokens<__nv_bfloat16>(shape, rows, source, cache, rotary,
                                         num_sms, stream)
             : MoveTokens<__half>(shape, rows, source, cache, rotary, num_sms,
                                  stream);
}

cudaError_t LaunchRotateQueries(const AttentionShape& shape,
                                const InputTensor& q, void* out,
                                const SequenceInfo* sequences, int32_t batch,
                                int64_t total_q, const Rotary& rotary,
                                int32_t num_sms, cudaStream_t stream) {
  if (total_q == 0 || batch == 0) return cudaSuccess;
  const unsigned blocks = Blocks(total_q, int64_t{8} * num_sms);
  if (shape.dtype == DataType::kBFloat16) {
    RotateQueriesKernel<<<blocks, kThreads, 0, stream>>>(
        shape, q, static_cast<__nv_bfloat16*>(out), sequences, batch, total_q,
        rotary);
  } else {
    RotateQueriesKernel<<<blocks, kThreads, 0, stream>>>(
        shape, q, static_cast<__half*>(out), sequences, batch, total_q, rotary);
  }
  return cudaGetLastError();
}

cudaError_t LaunchCombine(const KernelParams& params, bool early,
                          cudaStream_t stream) {
  return LaunchKernel(
      params.dtype == DataType::kBFloat16 ? CombineKernel<__nv_bfloat16>
                                          : CombineKernel<__half>,
      // No more than have room beside attention's blocks.
      {.grid = dim3(Blocks(params.schedule.max_combines, params.num_sms)),
       .threads = kThreads,
       .early = early},
      stream, params);
}

cudaError_t LaunchMergeStates(const MergeParams& params, int32_t num_sms,
                              cudaStream_t stream) {
  const int64_t rows = params.total_q * params.shape.num_heads;
  if (rows == 0) return cudaSuccess;
  const unsigned blocks =
      Blocks(CeilDiv(rows, kThreads / 32), int64_t{16} * num_sms);
  if (params.shape.dtype == DataType::kBFloat16) {
    MergeStatesKernel<__nv_bfloat16><<<blocks, kThreads, 0, stream>>>(params);
  } else {
    MergeStatesKernel<__half><<<blocks, kThreads, 0, stream>>>(params);
  }
  return cudaGetLastError();
}

}  // namespace interleave::attention
