// The decode role: tiles of at most 16 packed rows against the keys of one KV
// head, bound by memory. What counts is bytes in flight, so every warp is a
// pipeline of its own: it takes each kWarps-th chunk of the item's keys, copies
// chunks ahead into its own ring of stages in shared memory by cp.async, past
// the end of its item into the next one, and keeps its own online softmax on
// mma.sync; no barrier of the block is on the way. At an item's end the warps'
// states are merged through shared memory while the next item's keys arrive.

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
constexpr int kMergeBarrier =
    5;  // hardware barrier of a decode group's threads

// kKeys: keys of a chunk, a multiple of 16. kRing: chunks of a warp's ring.
// kWarps warps work together; Run is for all of them, `thread` counts theirs.
template <typename T, int kHeadDim, int kKeys, int kRing, int kWarps>
class Decode {
 public:
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kChunks = kHeadDim / 8;  // 16-byte chunks of a row
  static constexpr int kStageBytes = 2 * kKeys * kHeadDim * 2;
  static constexpr int kRingBytes = kWarps * kRing * kStageBytes;
  static constexpr int kMergeRows = 4;
  static constexpr int kMergeBytes =
      kWarps * kMergeRows * (kHeadDim + 2) * sizeof(float);

  // Computes `tile` and then every tile that source yields:
  //   bool Next(DecodeTile*): the tile after the latest one, or false;
  //   Publish() and Collect(): called before and after a barrier of the group,
  //   between two calls of Next.
  template <typename Source>
  static __device__ __forceinline__ void Run(const KernelParams& params,
                                             DecodeTile tile, Source& source,
                                             uint8_t* ring, float* scratch,
                                             int thread) {
    const int warp = Uniform(thread / 32);
    const int lane = thread % 32;
    const uint32_t smem = SharedAddress(ring) + warp * kRing * kStageBytes;
    const ScoreTransform transform(params);
    Loader loader(params, smem, lane);
    loader.Begin(tile, warp);
#pragma unroll
    for (int i = 0; i < kRing - 1; ++i) {
      loader.CopyNext(i);
      CopyAsyncCommit();
    }
    int stage = 0;
    int free_stage = kRing - 1;
    bool more = true;
    while (more) {
      DecodeTile next = {};
      more = source.Next(&next);
      RowState rows;
      float o[kOutputs][4];
#pragma unroll
      for (int i = 0; i < kOutputs; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) o[i][j] = 0.0f;
      }
      uint32_t q[kHeadDim / 16][4];
      LoadQueries(params, tile, lane, q);
      const MaskLimits limits(params, tile, lane / 4, 0, kDecodeRows);
      const int end = EndChunk(tile);
      const int steps = Steps(tile);
      int chunk = FirstChunk(tile) + warp;
      for (int step = 0; step < steps; ++step, chunk += kWarps) {
        CopyAsyncWait<kRing - 2>();
        __syncwarp();
        if (step + kRing - 1 == steps) loader.Begin(next, warp);
        loader.CopyNext(free_stage);
        CopyAsyncCommit();
        if (chunk < end) {
          Accumulate(q, limits, transform, chunk * kKeys,
                     smem + stage * kStageBytes, lane, rows, o);
        }
        stage = stage + 1 == kRing ? 0 : stage + 1;
        free_stage = free_stage + 1 == kRing ? 0 : free_stage + 1;
      }
      rows.Finish(transform.scale_log2());
      source.Publish();
      MergeWarps(params, tile, rows, o, warp, lane, thread, scratch);
      source.Collect();
      tile = next;
    }
  }

 private:
  static constexpr int kOutputs = kHeadDim / 8;

  static __device__ __forceinline__ int FirstChunk(const DecodeTile& tile) {
    return tile.kv_begin / kKeys;
  }
  static __device__ __forceinline__ int EndChunk(const DecodeTile& tile) {
    return tile.kv_end > tile.kv_begin ? (tile.kv_end + kKeys - 1) / kKeys : 0;
  }
  // Ring steps of a tile, the same for every warp; at least as many as the
  // loader is ahead, so that it is never more than one tile ahead.
  static __device__ __forceinline__ int Steps(const DecodeTile& tile) {
    const int chunks = EndChunk(tile) - FirstChunk(tile);
    return max((chunks + kWarps - 1) / kWarps, kRing - 1);
  }

  // Copies a warp's chunks of keys to its ring, in order, tile after tile.
  class Loader {
   public:
    __device__ __forceinline__ Loader(const KernelParams& params, uint32_t smem,
                                      int lane)
        : params_(params),
          smem_(smem),
          chunk_of_row_(lane % kChunks),
          row_(lane / kChunks),
          // A chunk of keys that starts at its own multiple lies in one block.
          one_block_(params.block_table != nullptr &&
                     params.page_size % kKeys == 0) {}

    __device__ __forceinline__ void Begin(const DecodeTile& tile, int warp) {
      kv_head_ = tile.kv_head;
      kv_begin_ = tile.kv_begin;
      kv_end_ = tile.kv_end;
      k_begin_ = tile.k_begin;
      table_ = params_.block_table + tile.batch * params_.block_table_stride;
      next_ = FirstChunk(tile) + warp;
      end_ = EndChunk(tile);
      Prefetch();
    }

    // The next chunk, if the tile has one, to a stage of the ring. Rows outside
    // the tile's keys are zeros.
    __device__ __forceinline__ void CopyNext(int stage) {
      if (next_ >= end_) return;
      const int key = next_ * kKeys;
      const uint32_t k_smem = smem_ + stage * kStageBytes;
      if (one_block_) {
        CopyFromOneBlock(key, k_smem);
      } else {
        CopyRowByRow(key, k_smem);
      }
      next_ += kWarps;
      Prefetch();
    }

   private:
    static constexpr int kRowStep = 32 / kChunks;  // rows of one warp's copy

    // Reads the block id that the next copy needs.
    __device__ __forceinline__ void Prefetch() {
      if (one_block_ && next_ < end_) {
        block_ = table_[params_.page_divisor.Divide(next_ * kKeys)];
      }
    }

    __device__ __forceinline__ void CopyFromOneBlock(int key, uint32_t k_smem) {
      const uint32_t v_smem = k_smem + kKeys * kHeadDim * 2;
      const int page = params_.page_divisor.Divide(key);
      const int in_page = key - page * params_.page_size + row_;
      const bool known = block_ >= 0 && block_ < params_.num_blocks;
      const int64_t block = known ? block_ : 0;
      const T* k = static_cast<const T*>(params_.k) +
                   kv_head_ * params_.k_head_stride + chunk_of_row_ * 8 +
                   block * params_.k_block_stride +
                   in_page * params_.k_token_stride;
      const T* v = static_cast<const T*>(params_.v) +
                   kv_head_ * params_.v_head_stride + chunk_of_row_ * 8 +
                   block * params_.v_block_stride +
                   in_page * params_.v_token_stride;
      const int64_t k_step = kRowStep * params_.k_token_stride;
      const int64_t v_step = kRowStep * params_.v_token_stride;
      const bool whole = known && key >= kv_begin_ && key + kKeys <= kv_end_;
#pragma unroll
      for (int i = 0; i < kKeys / kRowStep; ++i) {
        const int row = row_ + i * kRowStep;
        const bool valid =
            whole || (known && key + row >= kv_begin_ && key + row < kv_end_);
        const uint32_t at = Place(row);
        CopyAsync16(k_smem + at, k, valid);
        CopyAsync16(v_smem + at, v, valid);
        k += k_step;
        v += v_step;
      }
    }

    __device__ __forceinline__ void CopyRowByRow(int key, uint32_t k_smem) {
      const uint32_t v_smem = k_smem + kKeys * kHeadDim * 2;
#pragma unroll 2
      for (int i = 0; i < kKeys / kRowStep; ++i) {
        const int row = row_ + i * kRowStep;
        const int at_key = key + row;
        bool valid = at_key >= kv_begin_ && at_key < kv_end_;
        int64_t block = 0;
        int32_t in_block = k_begin_ + at_key;
        if (params_.block_table != nullptr && valid) {
          const int page = params_.page_divisor.Divide(at_key);
          block = table_[page];
          in_block = at_key - page * params_.page_size;
          valid = block >= 0 && block < params_.num_blocks;
        }
        if (!valid) block = in_block = 0;
        const uint32_t at = Place(row);
        CopyAsync16(k_smem + at,
                    static_cast<const T*>(params_.k) +
                        kv_head_ * params_.k_head_stride + chunk_of_row_ * 8 +
                        block * params_.k_block_stride +
                        in_block * params_.k_token_stride,
                    valid);
        CopyAsync16(v_smem + at,
                    static_cast<const T*>(params_.v) +
                        kv_head_ * params_.v_head_stride + chunk_of_row_ * 8 +
                        block * params_.v_block_stride +
                        in_block * params_.v_token_stride,
                    valid);
      }
    }

    __device__ __forceinline__ uint32_t Place(int row) const {
      return row * (kHeadDim * 2) + ((chunk_of_row_ ^ (row % 8)) * 16);
    }

    const KernelParams& params_;
    const uint32_t smem_;
    const int chunk_of_row_;
    const int row_;
    const bool one_block_;
    const int32_t* table_ = nullptr;
    int kv_head_ = 0;
    int kv_begin_ = 0;
    int kv_end_ = 0;
    int k_begin_ = 0;
    int next_ = 0;
    int end_ = 0;
    int32_t block_ = 0;
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
    if (rows.Update(even, transform.scale_log2(), rescale)) {
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

  // Merges the warps' states, kMergeRows rows at a time, and writes the rows.
  // scratch holds [warp][row] maxima, then sums, then [warp][row][kHeadDim]
  // outputs.
  static __device__ __forceinline__ void MergeWarps(
      const KernelParams& params, const DecodeTile& tile, const RowState& rows,
      const float (&o)[kOutputs][4], int warp, int lane, int thread,
      float* scratch) {
    float* maxima = scratch;
    float* sums = maxima + kWarps * kMergeRows;
    float* outputs = sums + kWarps * kMergeRows;
    for (int first = 0; first < tile.row_count; first += kMergeRows) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = lane / 4 + 8 * r - first;
        if (row < 0 || row >= kMergeRows) continue;
        const int at = warp * kMergeRows + row;
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
      NamedBarrierSync(kMergeBarrier, kThreads);
      constexpr int kLanes = kHeadDim / 4;  // threads of a row, 4 columns each
      const int column = (thread % kLanes) * 4;
      for (int row = thread / kLanes;
           row < min(kMergeRows, tile.row_count - first);
           row += kThreads / kLanes) {
        float largest = kNegativeInfinity;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) {
          largest = fmaxf(largest, maxima[w * kMergeRows + row]);
        }
        float sum = 0.0f;
        float4 total = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int w = 0; w < kWarps; ++w) {
          const int at = w * kMergeRows + row;
          const float weight =
              largest == kNegativeInfinity ? 0.0f : Exp2(maxima[at] - largest);
          sum = fmaf(sums[at], weight, sum);
          const float4 part = *reinterpret_cast<const float4*>(
              outputs + at * kHeadDim + column);
          total.x = fmaf(part.x, weight, total.x);
          total.y = fmaf(part.y, weight, total.y);
          total.z = fmaf(part.z, weight, total.z);
          total.w = fmaf(part.w, weight, total.w);
        }
        WriteRow(params, tile, first + row, column, largest, sum, total);
      }
      NamedBarrierSync(kMergeBarrier, kThreads);
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

// A decode launch alone (all blocks of it), or two launches that share a list:
// one that starts first and one that follows it onto multiprocessors that
// become free.
struct DecodeTeam {
  int32_t first_blocks;  // of the first launch
  int32_t all_blocks;    // of both
  bool follows;          // this is the second one
};

// Decode items of a launch by tickets, one ahead.
class DecodeTickets {
 public:
  // slots: shared memory for two ints, used in turn: a thread may publish the
  // next ticket while others have yet to collect this one.
  __device__ __forceinline__ DecodeTickets(const KernelParams& params,
                                           const DecodeTeam& team, int* slots)
      : params_(params),
        team_(team),
        count_(params.schedule.header->num_items[kRole]),
        slots_(slots) {}

  // The block's first tile; its ticket is the block's index in a launch that
  // starts first.
  __device__ __forceinline__ bool First(DecodeTile* tile) {
    int index = blockIdx.x;
    if (team_.follows) {
      Draw();
      Publish();
      __syncthreads();
      index = slots_[turn_];
      __syncthreads();
    }
    if (index >= count_) return false;
    Draw();
    *tile = Read(index);
    Publish();
    return true;
  }

  __device__ __forceinline__ bool Next(DecodeTile* tile) {
    if (!known_) {
      __syncthreads();
      Collect();
    }
    if (next_ >= count_) return false;
    Draw();
    *tile = Read(next_);
    return true;
  }

  __device__ __forceinline__ void Publish() {
    if (threadIdx.x == 0) slots_[turn_] = drawn_;
  }
  __device__ __forceinline__ void Collect() {
    next_ = slots_[turn_];
    turn_ ^= 1;
    known_ = true;
  }

  // The last act of a team resets the counters for the next launch: that of the
  // block that leaves last, or of the second launch's first block, which waits
  // for all others so that the second launch ends after the first.
  __device__ __forceinline__ void Leave() {
    if (threadIdx.x != 0) return;
    WorkCounter& counter = params_.schedule.counters[kRole];
    __threadfence();
    const bool two_launches = team_.all_blocks != team_.first_blocks;
    const int before = atomicAdd(&counter.done, 1);
    bool last = before == team_.all_blocks - 1;
    if (two_launches) {
      last = team_.follows && blockIdx.x == 0;
      if (last) {
        while (atomicAdd(&counter.done, 0) != team_.all_blocks) {
        }
      }
    }
    if (last) {
      counter.next = 0;
      counter.done = 0;
    }
  }

 private:
  static constexpr int kRole = static_cast<int>(Role::kDecode);

  __device__ __forceinline__ void Draw() {
    if (threadIdx.x == 0) {
      drawn_ = team_.first_blocks +
               atomicAdd(&params_.schedule.counters[kRole].next, 1);
    }
  }
  __device__ __forceinline__ DecodeTile Read(int index) const {
    const WorkItem item = params_.schedule.items[kRole][index];
    const SequenceInfo sequence = params_.schedule.sequences[item.batch];
    return {item.batch,       item.kv_head,     item.row_begin,
            item.row_count,   item.kv_begin,    item.kv_end,
            item.partial_row, sequence.q_begin, sequence.q_len,
            sequence.k_begin, sequence.k_len};
  }

  const KernelParams& params_;
  const DecodeTeam& team_;
  const int count_;
  int* slots_;
  int turn_ = 0;
  int drawn_ = 0;
  int next_ = 0;
  bool known_ = false;
};

}  // namespace interleave::attention::hopper

#endif  // ATTENTION_HOPPER_DECODE_CUH_
