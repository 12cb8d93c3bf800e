// The portable forward kernel: FlashAttention-2's loop (Dao, 2023) over the
// work items of a plan, for contiguous and paged keys, with cp.async copies
// (gathered row by row, so any page size and any strides do) and mma.sync.

#ifndef ATTENTION_PORTABLE_FORWARD_KERNEL_CUH_
#define ATTENTION_PORTABLE_FORWARD_KERNEL_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "attention/kernel_launch.cuh"
#include "attention/kernel_params.h"
#include "attention/portable/layout.h"
#include "attention/portable/mma.cuh"

namespace interleave::attention::portable {

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

__device__ __forceinline__ float NegativeInfinity() {
  return __int_as_float(0xff800000);
}

// One item's work by one thread block.
template <typename T, int kHeadDim, Role kRole>
class ItemRunner {
 public:
  static constexpr int kRows = Rows(kRole);
  static constexpr int kTileKv = TileKv(kRole, kHeadDim);
  static constexpr int kRowWarps = RowWarps(kRole);
  static constexpr int kKvWarps = KvWarps(kRole);
  static constexpr int kColumns = kTileKv / kKvWarps;  // of a warp
  static constexpr int kRowBytes = RowBytes(kHeadDim);
  static constexpr int kChunks = kHeadDim / 8;  // 16-byte chunks of a row
  static constexpr int kStageBytes = StageBytes(kRole, kHeadDim);
  static constexpr int kQueryBytes = QueryBytes(kRole, kHeadDim);
  static constexpr int kOffsetBytes = OffsetBytes(kRole, kHeadDim);
  // Queries stay in registers where the accumulators leave room.
  static constexpr bool kQueriesInRegisters = kHeadDim <= 128;

  __device__ ItemRunner(const KernelParams& params, char* shared, int stages)
      : params_(params),
        queries_(shared),
        offsets_(reinterpret_cast<int2*>(shared + kQueryBytes)),
        ring_(shared + kQueryBytes + kOffsetBytes),
        stages_(stages) {}

  __device__ void Run(const WorkItem& item) {
    item_ = item;
    sequence_ = params_.schedule.sequences[item.batch];
    FindRowLimits();
    ClearAccumulators();
    if (item.kv_begin < item.kv_end) {
      Loop();
    }
    Finish();
  }

 private:
  __device__ int Lane() const { return threadIdx.x % 32; }
  __device__ int RowWarp() const { return (threadIdx.x / 32) % kRowWarps; }
  __device__ int KvWarp() const { return (threadIdx.x / 32) / kRowWarps; }

  // A thread holds rows lane / 4 and lane / 4 + 8 of its warp's 16.
  __device__ int OwnRow(int half) const {
    return RowWarp() * 16 + Lane() / 4 + 8 * half;
  }

  __device__ void FindRowLimits() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      LimitsOfRow(OwnRow(half), low_[half], high_[half]);
    }
    int low_of_last;
    int high_of_first;
    int unused;
    LimitsOfRow(0, unused, high_of_first);
    LimitsOfRow(item_.row_count - 1, low_of_last, unused);
    clear_begin_ = low_of_last;
    clear_end_ = high_of_first;
  }

  // Keys [low, high) that a row of the tile sees within the item.
  __device__ void LimitsOfRow(int row, int& low, int& high) const {
    const int token = params_.group_divisor.Divide(item_.row_begin + row);
    const int64_t diagonal = int64_t{token} + sequence_.k_len - sequence_.q_len;
    low = item_.kv_begin;
    high = item_.kv_end;
    if (params_.window_left >= 0) {
      const int64_t bound = diagonal - params_.window_left;
      if (bound > low) low = bound < high ? static_cast<int>(bound) : high;
    }
    if (params_.window_right >= 0) {
      const int64_t bound = diagonal + params_.window_right + 1;
      if (bound < high) high = bound > 0 ? static_cast<int>(bound) : 0;
    }
  }

  __device__ void ClearAccumulators() {
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) out_[n][i] = 0.0f;
    }
    max_[0] = max_[1] = NegativeInfinity();
    sum_[0] = sum_[1] = 0.0f;
  }

  // Writes where the rows of kv tile `tile` lie: {block, slot}; {-1, 0} for a
  // row outside the item's keys or in a block that does not exist.
  __device__ void FindOffsets(int tile) {
    const int row = threadIdx.x;
    if (row >= kTileKv) return;
    const int position = tile * kTileKv + row;
    int2 place = make_int2(-1, 0);
    if (position >= item_.kv_begin && position < item_.kv_end) {
      if (params_.block_table == nullptr) {
        place = make_int2(0, sequence_.k_begin + position);
      } else {
        const int page = params_.page_divisor.Divide(position);
        const int block =
            params_
                .block_table[item_.batch * params_.block_table_stride + page];
        if (block >= 0 && block < params_.num_blocks) {
          place = make_int2(block, position - page * params_.page_size);
        }
      }
    }
    offsets_[(tile & 1) * kTileKv + row] = place;
  }

  __device__ uint32_t StageAddress(int tile) const {
    return SharedAddress(ring_) +
           ((tile - first_tile_) % stages_) * kStageBytes;
  }

  __device__ void CopyTile(int tile) {
    if (tile < end_tile_) {
      const uint32_t stage = StageAddress(tile);
      const T* k = static_cast<const T*>(params_.k) +
                   item_.kv_head * params_.k_head_stride;
      const T* v = static_cast<const T*>(params_.v) +
                   item_.kv_head * params_.v_head_stride;
      const int2* offsets = offsets_ + (tile & 1) * kTileKv;
#pragma unroll 4
      for (int i = threadIdx.x; i < kTileKv * kChunks; i += kThreads) {
        const int row = i / kChunks;
        const int chunk = i % kChunks;
        const int2 place = offsets[row];
        const bool valid = place.x >= 0;
        const int64_t block = valid ? place.x : 0;
        const uint32_t destination = stage + row * kRowBytes + chunk * 16;
        CopyAsync(destination,
                  k + block * params_.k_block_stride +
                      place.y * params_.k_token_stride + chunk * 8,
                  valid);
        CopyAsync(destination + kTileKv * kRowBytes,
                  v + block * params_.v_block_stride +
                      place.y * params_.v_token_stride + chunk * 8,
                  valid);
      }
    }
    CommitCopies();
  }

  __device__ void CopyQueries() {
    const uint32_t base = SharedAddress(queries_);
    const T* q = static_cast<const T*>(params_.q);
    for (int i = threadIdx.x; i < kRows * kChunks; i += kThreads) {
      const int row = i / kChunks;
      const int chunk = i % kChunks;
      const bool valid = row < item_.row_count;
      const int packed = item_.row_begin + (valid ? row : 0);
      const int token = params_.group_divisor.Divide(packed);
      const int head = item_.kv_head * params_.group_size + packed -
                       token * params_.group_size;
      CopyAsync(
          base + row * kRowBytes + chunk * 16,
          q + (int64_t{sequence_.q_begin} + token) * params_.q_token_stride +
              head * params_.q_head_stride + chunk * 8,
          valid);
    }
  }

  __device__ void Loop() {
    first_tile_ = item_.kv_begin / kTileKv;
    end_tile_ = (item_.kv_end + kTileKv - 1) / kTileKv;
    CopyQueries();
    FindOffsets(first_tile_);
    __syncthreads();
    for (int s = 0; s + 1 < stages_; ++s) {
      CopyTile(first_tile_ + s);
      FindOffsets(first_tile_ + s + 1);
      __syncthreads();
    }
    uint32_t q[kQueriesInRegisters ? kHeadDim / 16 : 1][4];
    for (int tile = first_tile_; tile < end_tile_; ++tile) {
      if (stages_ == 1) {
        __syncthreads();
        CopyTile(tile);
        WaitCopies<0>();
        __syncthreads();
        FindOffsets(tile + 1);
      } else {
        WaitCopies(stages_ - 2);
        __syncthreads();
        CopyTile(tile + stages_ - 1);
        FindOffsets(tile + stages_);
      }
      if (kQueriesInRegisters && tile == first_tile_) {
#pragma unroll
        for (int k = 0; k < kHeadDim / 16; ++k) LoadQuery(k, q[k % kQRegs]);
      }
      Compute(tile, q);
    }
    WaitCopies<0>();
  }

  static constexpr int kQRegs = kQueriesInRegisters ? kHeadDim / 16 : 1;

  __device__ void LoadQuery(int k, uint32_t (&a)[4]) const {
    const int row = RowWarp() * 16 + Lane() % 16;
    LoadMatrix4(a, SharedAddress(queries_) + row * kRowBytes + k * 32 +
                       (Lane() / 16) * 16);
  }

  __device__ void Compute(int tile, uint32_t (&q)[kQRegs][4]) {
    const uint32_t keys = StageAddress(tile);
    const uint32_t values = keys + kTileKv * kRowBytes;
    const int column0 = KvWarp() * kColumns;
    float s[kColumns / 8][4];
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] = 0.0f;
    }
    const uint32_t key_address =
        keys + (column0 + Lane() % 8 + (Lane() / 16) * 8) * kRowBytes +
        ((Lane() / 8) % 2) * 16;
#pragma unroll
    for (int k = 0; k < kHeadDim / 16; ++k) {
      if (!kQueriesInRegisters) LoadQuery(k, q[0]);
#pragma unroll
      for (int n = 0; n < kColumns / 16; ++n) {
        uint32_t b[4];
        LoadMatrix4(b, key_address + n * 16 * kRowBytes + k * 32);
        Element<T>::Mma(s[2 * n], q[kQueriesInRegisters ? k : 0], b[0], b[1]);
        Element<T>::Mma(s[2 * n + 1], q[kQueriesInRegisters ? k : 0], b[2],
                        b[3]);
      }
    }
    Scale(s);
    const int begin = tile * kTileKv;
    if (begin < clear_begin_ || begin + kTileKv > clear_end_) {
      Mask(s, begin + column0);
    }
    Softmax(s);
    const uint32_t value_address =
        values + (column0 + Lane() % 16) * kRowBytes + (Lane() / 16) * 16;
#pragma unroll
    for (int k = 0; k < kColumns / 16; ++k) {
      const uint32_t a[4] = {
          Element<T>::Pack(s[2 * k][0], s[2 * k][1]),
          Element<T>::Pack(s[2 * k][2], s[2 * k][3]),
          Element<T>::Pack(s[2 * k + 1][0], s[2 * k + 1][1]),
          Element<T>::Pack(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
      for (int n = 0; n < kHeadDim / 16; ++n) {
        uint32_t b[4];
        LoadMatrix4Transposed(b, value_address + k * 16 * kRowBytes + n * 32);
        Element<T>::Mma(out_[2 * n], a, b[0], b[1]);
        Element<T>::Mma(out_[2 * n + 1], a, b[2], b[3]);
      }
    }
  }

  // Logits in base 2.
  __device__ void Scale(float (&s)[kColumns / 8][4]) const {
    if (params_.softcap > 0.0f) {
      const float inner = params_.softmax_scale / params_.softcap;
      const float outer = params_.softcap * kLog2E;
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) s[n][i] = outer * tanhf(s[n][i] * inner);
      }
      return;
    }
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] *= params_.scale_log2;
    }
  }

  __device__ void Mask(float (&s)[kColumns / 8][4], int position) const {
    const int column = position + (Lane() % 4) * 2;
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = column + n * 8 + i % 2;
        if (key < low_[i / 2] || key >= high_[i / 2]) {
          s[n][i] = NegativeInfinity();
        }
      }
    }
  }

  __device__ void Softmax(float (&s)[kColumns / 8][4]) {
    float scale[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float top = max_[half];
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
        top = fmaxf(top, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
      }
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
      const float shift = top == NegativeInfinity() ? 0.0f : top;
      scale[half] = exp2f(max_[half] - shift);
      max_[half] = top;
      float sum = 0.0f;
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const float p = exp2f(s[n][2 * half + i] - shift);
          s[n][2 * half + i] = p;
          sum += p;
        }
      }
      sum_[half] = sum_[half] * scale[half] + sum;
    }
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      out_[n][0] *= scale[0];
      out_[n][1] *= scale[0];
      out_[n][2] *= scale[1];
      out_[n][3] *= scale[1];
    }
  }

  __device__ void Finish() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sum_[half] += __shfl_xor_sync(0xffffffffu, sum_[half], 1);
      sum_[half] += __shfl_xor_sync(0xffffffffu, sum_[half], 2);
    }
    if constexpr (kKvWarps == 1) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = OwnRow(half);
        if (row >= item_.row_count) continue;
        const RowWriter writer(*this, row, max_[half], sum_[half],
                               Lane() % 4 == 0);
#pragma unroll
        for (int n = 0; n < kHeadDim / 8; ++n) {
          writer.Write(n * 8 + (Lane() % 4) * 2, out_[n][2 * half],
                       out_[n][2 * half + 1]);
        }
      }
    } else {
      MergeWarps();
    }
  }

  // Writes the columns of one row that a thread holds, and its lse.
  class RowWriter {
   public:
    __device__ RowWriter(const ItemRunner& runner, int row, float max,
                         float sum, bool writes_lse) {
      const KernelParams& params = runner.params_;
      const WorkItem& item = runner.item_;
      float lse = NegativeInfinity();
      if (item.partial_row >= 0) {
        const int64_t slot = int64_t{item.partial_row} + row;
        scale_ = sum > 0.0f ? 1.0f / sum : 0.0f;
        if (sum > 0.0f) lse = (max + log2f(sum)) * kLn2;
        partial_ = params.schedule.partial_out + slot * kHeadDim;
        if (writes_lse) params.schedule.partial_lse[slot] = lse;
        return;
      }
      const int packed = item.row_begin + row;
      const int token = params.group_divisor.Divide(packed);
      const int head =
          item.kv_head * params.group_size + packed - token * params.group_size;
      const int64_t q_row = int64_t{runner.sequence_.q_begin} + token;
      scale_ = 0.0f;
      if (sum > 0.0f) {
        float top = max;
        float total = sum;
        float weight = 1.0f;
        if (params.sinks != nullptr) {
          const float sink = params.sinks[head] * kLog2E;
          top = fmaxf(max, sink);
          weight = exp2f(max - top);
          total = sum * weight + exp2f(sink - top);
        }
        scale_ = weight / total;
        lse = (top + log2f(total)) * kLn2;
      }
      final_ = static_cast<T*>(params.out) + q_row * params.out_token_stride +
               head * params.out_head_stride;
      if (writes_lse && params.lse != nullptr) {
        params.lse[head * params.lse_head_stride + q_row] = lse;
      }
    }

    __device__ void Write(int column, float low, float high) const {
      if (partial_ != nullptr) {
        *reinterpret_cast<float2*>(partial_ + column) =
            make_float2(low * scale_, high * scale_);
      } else {
        *reinterpret_cast<uint32_t*>(final_ + column) =
            Element<T>::Pack(low * scale_, high * scale_);
      }
    }

   private:
    float scale_;
    float* partial_ = nullptr;
    T* final_ = nullptr;
  };

  // Merges the warps' shares of the keys, through the ring's memory.
  __device__ void MergeWarps() {
    float* outs = reinterpret_cast<float*>(ring_);
    float* maxes = outs + kKvWarps * kRows * kHeadDim;
    float* sums = maxes + kKvWarps * kRows;
    static_assert(kKvWarps * kRows * (kHeadDim + 2) * 4 <= kStageBytes ||
                  kKvWarps == 1);
    __syncthreads();
    const int first = KvWarp() * kRows;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + OwnRow(half);
#pragma unroll
      for (int n = 0; n < kHeadDim / 8; ++n) {
        *reinterpret_cast<float2*>(outs + row * kHeadDim + n * 8 +
                                   (Lane() % 4) * 2) =
            make_float2(out_[n][2 * half], out_[n][2 * half + 1]);
      }
      if (Lane() % 4 == 0) {
        maxes[row] = max_[half];
        sums[row] = sum_[half];
      }
    }
    __syncthreads();
    constexpr int kThreadsOfRow = kThreads / kRows;
    const int row = threadIdx.x / kThreadsOfRow;
    const int part = threadIdx.x % kThreadsOfRow;
    if (row < item_.row_count) {
      float top = NegativeInfinity();
#pragma unroll
      for (int w = 0; w < kKvWarps; ++w) {
        top = fmaxf(top, maxes[w * kRows + row]);
      }
      const float shift = top == NegativeInfinity() ? 0.0f : top;
      float weight[kKvWarps];
      float sum = 0.0f;
#pragma unroll
      for (int w = 0; w < kKvWarps; ++w) {
        weight[w] = exp2f(maxes[w * kRows + row] - shift);
        sum += weight[w] * sums[w * kRows + row];
      }
      const RowWriter writer(*this, row, top, sum, part == 0);
      for (int column = part * 2; column < kHeadDim;
           column += 2 * kThreadsOfRow) {
        float low = 0.0f;
        float high = 0.0f;
#pragma unroll
        for (int w = 0; w < kKvWarps; ++w) {
          const float2 pair = *reinterpret_cast<const float2*>(
              outs + (w * kRows + row) * kHeadDim + column);
          low += weight[w] * pair.x;
          high += weight[w] * pair.y;
        }
        writer.Write(column, low, high);
      }
    }
  }

  const KernelParams& params_;
  char* const queries_;
  int2* const offsets_;
  char* const ring_;
  const int stages_;

  WorkItem item_;
  SequenceInfo sequence_;
  int first_tile_ = 0;
  int end_tile_ = 0;
  int low_[2];
  int high_[2];
  // Tiles within [clear_begin_, clear_end_) need no mask.
  int clear_begin_ = 0;
  int clear_end_ = 0;
  float out_[kHeadDim / 8][4];
  float max_[2];
  float sum_[2];
};

template <typename T, int kHeadDim, Role kRole>
__global__ void __launch_bounds__(kThreads, BlocksByRegisters(kRole, kHeadDim))
    ForwardKernel(const __grid_constant__ KernelParams params, int stages) {
  extern __shared__ __align__(128) char shared[];
  __shared__ int ticket;
  constexpr int kRoleIndex = static_cast<int>(kRole);
  WorkCounter* counter = params.schedule.counters + kRoleIndex;
  const int found = params.schedule.header->num_items[kRoleIndex];
  const int bound = params.schedule.max_items[kRoleIndex];
  const int num_items = found < bound ? found : bound;
  ItemRunner<T, kHeadDim, kRole> runner(params, shared, stages);
  int index = 0;
  if (threadIdx.x == 0) ticket = atomicAdd(&counter->next, 1);
  __syncthreads();
  index = ticket;
  while (index < num_items) {
    __syncthreads();
    // The next ticket travels while this item is computed.
    if (threadIdx.x == 0) ticket = atomicAdd(&counter->next, 1);
    runner.Run(params.schedule.items[kRoleIndex][index]);
    __syncthreads();
    index = ticket;
  }
  if (threadIdx.x == 0) {
    __threadfence();
    if (atomicAdd(&counter->done, 1) == static_cast<int>(gridDim.x) - 1) {
      counter->next = 0;
      counter->done = 0;
    }
  }
}

template <typename T, int kHeadDim, Role kRole>
cudaError_t LaunchRole(const KernelParams& params, int stages, int blocks,
                       cudaStream_t stream) {
  return LaunchKernel(ForwardKernel<T, kHeadDim, kRole>,
                      {.grid = dim3(blocks),
                       .threads = kThreads,
                       .shared_bytes = SharedBytes(kRole, kHeadDim, stages)},
                      stream, params, stages);
}

}  // namespace interleave::attention::portable

#endif  // ATTENTION_PORTABLE_FORWARD_KERNEL_CUH_
