// The decode role: a tile of at most 16 packed rows against the keys of one KV
// head, bound by memory. What counts is bytes in flight, so every warp is a
// pipeline of its own: it takes each kWarps-th chunk of the item's keys, copies
// chunks ahead into its own ring of stages in shared memory by cp.async, and
// keeps its own online softmax on mma.sync; no barrier of the block is on the
// way. At the item's end the warps' states are merged through shared memory.

#ifndef ATTENTION_HOPPER_DECODE_CUH_
#define ATTENTION_HOPPER_DECODE_CUH_

#include <cstdint>

#include "attention/hopper/primitives.cuh"
#include "attention/hopper/softmax.cuh"
#include "attention/kernel_params.h"

namespace interleave::attention::hopper {

struct DecodeTile {
  int32_t batch;
  int32_t kv_head;
  int32_t row_begin;
  int32_t row_count;
  int32_t kv_begin;
  int32_t kv_end;
  int32_t partial_row;
  int32_t q_begin;
  int32_t q_len;
  int32_t k_begin;
  int32_t k_len;
};

constexpr int kDecodeRows = 16;

// kKeys: keys of a chunk, a multiple of 16. kStages: chunks of a warp's ring.
template <typename T, int kHeadDim, int kKeys, int kRing, int kWarps>
class Decode {
 public:
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kChunks = kHeadDim / 8;  // 16-byte chunks of a row
  static constexpr int kStageBytes = 2 * kKeys * kHeadDim * 2;
  static constexpr int kRingBytes = kWarps * kRing * kStageBytes;
  static constexpr int kMergeBytes =
      kWarps * kDecodeRows * (kHeadDim + 2) * sizeof(float);
  static_assert(kMergeBytes <= kRingBytes);
  static constexpr int kSharedBytes = kRingBytes;

  // All threads of the block; params.schedule's decode items until none is
  // left.
  static __device__ __forceinline__ void Run(const KernelParams& params,
                                             uint8_t* shared, int* ticket) {
    constexpr int kRole = static_cast<int>(Role::kDecode);
    WorkCounter& counter = params.schedule.counters[kRole];
    const int count = params.schedule.header->num_items[kRole];
    if (threadIdx.x == 0) *ticket = atomicAdd(&counter.next, 1);
    __syncthreads();
    int item_index = *ticket;
    while (item_index < count) {
      __syncthreads();
      // Drawn ahead: the answer is back when the item is done.
      if (threadIdx.x == 0) *ticket = atomicAdd(&counter.next, 1);
      const WorkItem item = params.schedule.items[kRole][item_index];
      const SequenceInfo sequence = params.schedule.sequences[item.batch];
      const DecodeTile tile = {
          item.batch,     item.kv_head,     item.row_begin,   item.row_count,
          item.kv_begin,  item.kv_end,      item.partial_row, sequence.q_begin,
          sequence.q_len, sequence.k_begin, sequence.k_len};
      RunTile(params, tile, shared);
      __syncthreads();
      item_index = *ticket;
    }
    if (threadIdx.x == 0) {
      __threadfence();
      if (atomicAdd(&counter.done, 1) == static_cast<int>(gridDim.x) - 1) {
        counter.next = 0;
        counter.done = 0;
      }
    }
  }

 private:
  static constexpr int kOutputs = kHeadDim / 8;

  // Copies chunks of keys to the ring.
  class Loader {
   public:
    __device__ __forceinline__ Loader(const KernelParams& params,
                                      const DecodeTile& tile, uint32_t smem,
                                      int lane)
        : params_(params), tile_(tile) {
      const int chunk = lane % kChunks;
      row_ = lane / kChunks;
      k_ = static_cast<const T*>(params.k) +
           tile.kv_head * params.k_head_stride + chunk * 8;
      v_ = static_cast<const T*>(params.v) +
           tile.kv_head * params.v_head_stride + chunk * 8;
      // Rows of a lane are kRowStep apart; where that is no multiple of 8 the
      // swizzle changes from row to row.
      smem_ = smem;
      chunk_ = chunk;
      // A chunk of keys that starts at its own multiple lies in one block.
      one_block_ =
          params.block_table != nullptr && params.page_size % kKeys == 0;
      table_ =
          params.block_table == nullptr
              ? nullptr
              : params.block_table + tile.batch * params.block_table_stride;
      first_page_ = tile.kv_begin;
    }

    // Reads the block id that Copy of the same chunk needs.
    __device__ __forceinline__ void Prefetch(int key) {
      if (!one_block_) return;
      if (key < tile_.kv_end) {
        block_ = table_[params_.page_divisor.Divide(max(key, 0))];
      }
    }

    // Keys [key, key + kKeys) to stage; rows outside the item are zeros.
    __device__ __forceinline__ void Copy(int key, int stage) {
      const uint32_t k_smem = smem_ + stage * kStageBytes;
      const uint32_t v_smem = k_smem + kKeys * kHeadDim * 2;
      if (one_block_) {
        const int page = params_.page_divisor.Divide(key);
        const int in_page = key - page * params_.page_size + row_;
        const bool known = block_ >= 0 && block_ < params_.num_blocks;
        const int64_t block = known ? block_ : 0;
        const T* k = k_ + block * params_.k_block_stride +
                     in_page * params_.k_token_stride;
        const T* v = v_ + block * params_.v_block_stride +
                     in_page * params_.v_token_stride;
        const int64_t k_step = kRowStep * params_.k_token_stride;
        const int64_t v_step = kRowStep * params_.v_token_stride;
        const bool whole =
            known && key >= tile_.kv_begin && key + kKeys <= tile_.kv_end;
#pragma unroll
        for (int i = 0; i < kKeys / kRowStep; ++i) {
          const int row = row_ + i * kRowStep;
          const bool valid = whole || (known && key + row >= tile_.kv_begin &&
                                       key + row < tile_.kv_end);
          const uint32_t at = Place(row);
          CopyAsync16(k_smem + at, k, valid);
          CopyAsync16(v_smem + at, v, valid);
          k += k_step;
          v += v_step;
        }
        return;
      }
#pragma unroll 2
      for (int i = 0; i < kKeys / kRowStep; ++i) {
        const int row = row_ + i * kRowStep;
        const int at_key = key + row;
        bool valid = at_key >= tile_.kv_begin && at_key < tile_.kv_end;
        int64_t block = 0;
        int32_t in_block = tile_.k_begin + at_key;
        if (table_ != nullptr && valid) {
          const int page = params_.page_divisor.Divide(at_key);
          block = table_[page];
          in_block = at_key - page * params_.page_size;
          valid = block >= 0 && block < params_.num_blocks;
        }
        if (!valid) block = in_block = 0;
        const uint32_t at = Place(row);
        CopyAsync16(k_smem + at,
                    k_ + block * params_.k_block_stride +
                        in_block * params_.k_token_stride,
                    valid);
        CopyAsync16(v_smem + at,
                    v_ + block * params_.v_block_stride +
                        in_block * params_.v_token_stride,
                    valid);
      }
    }

   private:
    static constexpr int kRowStep = 32 / kChunks;  // rows of one warp's copy

    __device__ __forceinline__ uint32_t Place(int row) const {
      return row * (kHeadDim * 2) + ((chunk_ ^ (row % 8)) * 16);
    }

    const KernelParams& params_;
    const DecodeTile& tile_;
    const T* k_;
    const T* v_;
    const int32_t* table_;
    uint32_t smem_;
    int chunk_;
    int row_;
    int32_t block_ = 0;
    int first_page_;
    bool one_block_;
  };

  // Rows of Q as operand A, straight from global memory; rows that the tile
  // does not have are zeros.
  static __device__ __forceinline__ void LoadQueries(
      const KernelParams& params, const DecodeTile& tile, int lane,
      uint32_t (&q)[kHeadDim / 16][4]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = lane / 4 + 8 * r;
      const bool valid = row < tile.row_count;
      const int packed = tile.row_begin + (valid ? row : 0);
      const int token = params.group_divisor.Divide(packed);
      const int head =
          tile.kv_head * params.group_size + packed - token * params.group_size;
      const T* data = static_cast<const T*>(params.q) +
                      (tile.q_begin + token) * params.q_token_stride +
                      head * params.q_head_stride + 2 * (lane % 4);
#pragma unroll
      for (int step = 0; step < kHeadDim / 16; ++step) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint32_t* word =
              reinterpret_cast<const uint32_t*>(data + step * 16 + half * 8);
          q[step][2 * half + r] = valid ? __ldg(word) : 0;
        }
      }
    }
  }

  static __device__ __forceinline__ void RunTile(const KernelParams& params,
                                                 const DecodeTile& tile,
                                                 uint8_t* shared) {
    const int warp =
        __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0);
    const int lane = threadIdx.x % 32;
    const uint32_t ring = SharedAddress(shared) + warp * kRing * kStageBytes;
    RowState rows;
    float o[kOutputs][4];
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) o[i][j] = 0.0f;
    }
    const ScoreTransform transform(params);
    if (tile.kv_begin < tile.kv_end) {
      const int first = tile.kv_begin / kKeys + warp;
      const int end = (tile.kv_end + kKeys - 1) / kKeys;
      Loader loader(params, tile, ring, lane);
      loader.Prefetch(first * kKeys);
#pragma unroll
      for (int i = 0; i < kRing - 1; ++i) {
        const int chunk = first + i * kWarps;
        if (chunk < end) loader.Copy(chunk * kKeys, i);
        CopyAsyncCommit();
        loader.Prefetch((chunk + kWarps) * kKeys);
      }
      uint32_t q[kHeadDim / 16][4];
      LoadQueries(params, tile, lane, q);
      const MaskLimits limits(params, tile, lane / 4, 0, kDecodeRows);
      int stage = 0;
      int free_stage = kRing - 1;
      for (int chunk = first; chunk < end; chunk += kWarps) {
        CopyAsyncWait<kRing - 2>();
        __syncwarp();
        const int ahead = chunk + (kRing - 1) * kWarps;
        if (ahead < end) loader.Copy(ahead * kKeys, free_stage);
        CopyAsyncCommit();
        loader.Prefetch((ahead + kWarps) * kKeys);
        Accumulate(q, limits, transform, chunk * kKeys,
                   ring + stage * kStageBytes, lane, rows, o);
        stage = stage + 1 == kRing ? 0 : stage + 1;
        free_stage = free_stage + 1 == kRing ? 0 : free_stage + 1;
      }
      CopyAsyncWait<0>();
      rows.Finish(transform.scale_log2());
    }
    __syncthreads();
    MergeWarps(params, tile, rows, o, warp, lane,
               reinterpret_cast<float*>(shared));
  }

  // One chunk of keys.
  static __device__ __forceinline__ void Accumulate(
      const uint32_t (&q)[kHeadDim / 16][4], const MaskLimits& limits,
      const ScoreTransform& transform, int key, uint32_t k_smem, int lane,
      RowState& rows, float (&o)[kOutputs][4]) {
    constexpr int kTiles = kKeys / 8;
    // Two accumulators a tile halve the chain of dependent products.
    float even[kTiles * 4];
    float odd[kTiles * 4];
#pragma unroll
    for (int i = 0; i < kTiles * 4; ++i) even[i] = odd[i] = 0.0f;
    // Matrices of a load: keys 0-7 and 8-15, 16-byte chunks 2 * step and + 1.
    const int k_row = lane % 8 + (lane / 16) * 8;
    const int k_half = (lane / 8) % 2;
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step) {
#pragma unroll
      for (int t = 0; t < kTiles; t += 2) {
        uint32_t b[4];
        LoadMatrices(b, k_smem + (t * 8 + k_row) * (kHeadDim * 2) +
                            (((2 * step + k_half) ^ (k_row % 8)) * 16));
        float(&s)[kTiles * 4] = step % 2 == 0 ? even : odd;
        MmaSync<T>(*reinterpret_cast<float(*)[4]>(&s[t * 4]), q[step], b[0],
                   b[1]);
        MmaSync<T>(*reinterpret_cast<float(*)[4]>(&s[t * 4 + 4]), q[step], b[2],
                   b[3]);
      }
    }
#pragma unroll
    for (int i = 0; i < kTiles * 4; ++i) even[i] += odd[i];
    transform.Apply(even);
    if (limits.Cuts(key, kKeys)) limits.Apply(even, key + 2 * (lane % 4));
    float rescale[2];
    rows.Update(even, transform.scale_log2(), rescale);
    if (__any_sync(0xFFFFFFFFu, rescale[0] != 1.0f || rescale[1] != 1.0f)) {
#pragma unroll
      for (int i = 0; i < kOutputs; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) o[i][j] *= rescale[j / 2];
      }
    }
    const uint32_t v_smem = k_smem + kKeys * kHeadDim * 2;
    const int v_row = lane % 16;
    const int v_half = lane / 16;
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step) {
      uint32_t p[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        p[i] = Pack<T>(even[step * 8 + 2 * i], even[step * 8 + 2 * i + 1]);
      }
#pragma unroll
      for (int i = 0; i < kOutputs; i += 2) {
        uint32_t b[4];
        LoadMatricesTransposed(b, v_smem +
                                      (step * 16 + v_row) * (kHeadDim * 2) +
                                      (((i + v_half) ^ (v_row % 8)) * 16));
        MmaSync<T>(o[i], p, b[0], b[1]);
        MmaSync<T>(o[i + 1], p, b[2], b[3]);
      }
    }
  }

  // Merges the warps' states and writes the tile's rows. scratch holds
  // [warp][row] maxima, then sums, then [warp][row][kHeadDim] outputs.
  static __device__ __forceinline__ void MergeWarps(
      const KernelParams& params, const DecodeTile& tile, const RowState& rows,
      const float (&o)[kOutputs][4], int warp, int lane, float* scratch) {
    float* maxima = scratch;
    float* sums = maxima + kWarps * kDecodeRows;
    float* outputs = sums + kWarps * kDecodeRows;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = lane / 4 + 8 * r;
      if (row >= tile.row_count) continue;
      const int at = warp * kDecodeRows + row;
      if (lane % 4 == 0) {
        maxima[at] = rows.max(r);
        sums[at] = rows.sum(r);
      }
#pragma unroll
      for (int i = 0; i < kOutputs; ++i) {
        *reinterpret_cast<float2*>(outputs + at * kHeadDim + i * 8 +
                                   2 * (lane % 4)) = {o[i][2 * r],
                                                      o[i][2 * r + 1]};
      }
    }
    __syncthreads();
    constexpr int kLanes = kHeadDim / 4;  // threads of a row, 4 columns each
    const int column = (threadIdx.x % kLanes) * 4;
    for (int row = threadIdx.x / kLanes; row < tile.row_count;
         row += kThreads / kLanes) {
      float largest = kNegativeInfinity;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        largest = fmaxf(largest, maxima[w * kDecodeRows + row]);
      }
      float sum = 0.0f;
      float4 total = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        const int at = w * kDecodeRows + row;
        const float weight =
            largest == kNegativeInfinity ? 0.0f : Exp2(maxima[at] - largest);
        sum = fmaf(sums[at], weight, sum);
        const float4 part =
            *reinterpret_cast<const float4*>(outputs + at * kHeadDim + column);
        total.x = fmaf(part.x, weight, total.x);
        total.y = fmaf(part.y, weight, total.y);
        total.z = fmaf(part.z, weight, total.z);
        total.w = fmaf(part.w, weight, total.w);
      }
      WriteRow(params, tile, row, column, largest, sum, total);
    }
  }

  static __device__ __forceinline__ void WriteRow(const KernelParams& params,
                                                  const DecodeTile& tile,
                                                  int row, int column,
                                                  float largest, float sum,
                                                  const float4& total) {
    const int packed = tile.row_begin + row;
    const int token = params.group_divisor.Divide(packed);
    const int head =
        tile.kv_head * params.group_size + packed - token * params.group_size;
    const bool partial = tile.partial_row >= 0;
    const RowEnd end = EndRow(
        largest, sum,
        partial || params.sinks == nullptr ? nullptr : params.sinks + head);
    if (partial) {
      const int64_t slot = int64_t{tile.partial_row} + row;
      *reinterpret_cast<float4*>(params.schedule.partial_out + slot * kHeadDim +
                                 column) = {
          total.x * end.factor, total.y * end.factor, total.z * end.factor,
          total.w * end.factor};
      if (column == 0) params.schedule.partial_lse[slot] = end.lse;
      return;
    }
    T* out = static_cast<T*>(params.out) +
             (tile.q_begin + token) * params.out_token_stride +
             head * params.out_head_stride + column;
    *reinterpret_cast<uint2*>(out) = {
        Pack<T>(total.x * end.factor, total.y * end.factor),
        Pack<T>(total.z * end.factor, total.w * end.factor)};
    if (column == 0 && params.lse != nullptr) {
      params.lse[head * params.lse_head_stride + tile.q_begin + token] =
          end.lse;
    }
  }
};

}  // namespace interleave::attention::hopper

#endif  // ATTENTION_HOPPER_DECODE_CUH_
