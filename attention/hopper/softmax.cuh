// Masking, online softmax and the final scaling of rows, on accumulators in the
// layout that wgmma and mma.sync share: element i of a thread belongs to row
// (i / 2) % 2 of its two rows and to column 8 * (i / 4) + i % 2 from its first.

#ifndef ATTENTION_HOPPER_SOFTMAX_CUH_
#define ATTENTION_HOPPER_SOFTMAX_CUH_

#include <cstdint>

#include "attention/hopper/primitives.cuh"
#include "attention/kernel_params.h"

namespace interleave::attention::hopper {

// Keys [first, last] that a row sees; last < first when it sees none.
struct KeyRange {
  int32_t first;
  int32_t last;
};

// Tile is any struct with row_begin, row_count, kv_begin, kv_end, q_len, k_len.
template <typename Tile>
__device__ __forceinline__ KeyRange VisibleKeys(const KernelParams& params,
                                                const Tile& tile, int row) {
  const int packed = tile.row_begin + min(row, tile.row_count - 1);
  const int64_t diagonal =
      int64_t{static_cast<int32_t>(params.group_divisor.Divide(packed))} +
      tile.k_len - tile.q_len;
  int64_t first = tile.kv_begin;
  int64_t last = tile.kv_end - 1;
  if (params.window_left >= 0)
    first = max(first, diagonal - params.window_left);
  if (params.window_right >= 0) {
    last = min(last, diagonal + params.window_right);
  }
  last = max(last, int64_t{-1});
  first = min(first, int64_t{0x3FFFFFFF});
  return {static_cast<int32_t>(first), static_cast<int32_t>(last)};
}

// The masks of a thread's two rows, row and row + 8, and whether a key tile
// needs any for the rows [group_row, group_row + group_rows) that share code.
class MaskLimits {
 public:
  template <typename Tile>
  __device__ __forceinline__ MaskLimits(const KernelParams& params,
                                        const Tile& tile, int row,
                                        int group_row, int group_rows) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const KeyRange range = VisibleKeys(params, tile, row + 8 * r);
      const bool empty = range.last < range.first;
      first_[r] = empty ? 0x40000000 : range.first;
      width_[r] = empty ? 0 : range.last - range.first;
    }
    whole_last_ = VisibleKeys(params, tile, group_row).last;
    whole_first_ = VisibleKeys(params, tile, group_row + group_rows - 1).first;
  }

  // Whether keys [key, key + count) hold one that some row does not see.
  __device__ __forceinline__ bool Cuts(int key, int count) const {
    return key + count - 1 > whole_last_ || key < whole_first_;
  }

  // first_column is the key of this thread's element 0.
  template <int kCount>
  __device__ __forceinline__ void Apply(float (&s)[kCount],
                                        int first_column) const {
    const int offset[2] = {first_column - first_[0], first_column - first_[1]};
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int r = (i / 2) % 2;
      const uint32_t column = offset[r] + (i / 4) * 8 + i % 2;
      s[i] = column > width_[r] ? kNegativeInfinity : s[i];
    }
  }

 private:
  int32_t first_[2];
  uint32_t width_[2];
  int32_t whole_last_;
  int32_t whole_first_;
};

// What turns a raw product into a logit before masking. The common case costs
// nothing: the scale is folded into the exponential.
class ScoreTransform {
 public:
  __device__ __forceinline__ explicit ScoreTransform(const KernelParams& params)
      : softcap_(params.softcap),
        scale_(params.softmax_scale),
        active_(params.softcap > 0.0f || !(params.softmax_scale > 0.0f)),
        scale_log2_(active_ ? kLog2E : params.scale_log2) {}

  __device__ __forceinline__ float scale_log2() const { return scale_log2_; }

  template <int kCount>
  __device__ __forceinline__ void Apply(float (&s)[kCount]) const {
    if (!active_) return;
    if (softcap_ > 0.0f) {
      const float inner = scale_ / softcap_;
#pragma unroll
      for (int i = 0; i < kCount; ++i) s[i] = softcap_ * Tanh(s[i] * inner);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) s[i] *= scale_;
    }
  }

 private:
  float softcap_;
  float scale_;
  bool active_;
  float scale_log2_;
};

// The online softmax of a thread's two rows. Scores are in raw units; c, the
// scale times log2(e), is positive.
class RowState {
 public:
  // Turns scores into weights, relative to a maximum that follows the largest
  // score so far. True if some row of the warp moved its maximum: earlier
  // outputs must then be multiplied with rescale. A maximum stays while the
  // largest score exceeds it by at most kSlack powers of two, which weights and
  // sums have room for; so most calls rescale nothing.
  template <int kCount>
  __device__ __forceinline__ bool Update(float (&s)[kCount], float c,
                                         float (&rescale)[2]) {
    constexpr float kSlack = 8.0f;
    bool moved = false;
    float base[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float largest = s[2 * r];
#pragma unroll
      for (int i = 0; i < kCount; i += 4) {
        largest = fmaxf(largest, fmaxf(s[i + 2 * r], s[i + 2 * r + 1]));
      }
      largest = QuadMax(largest);
      // False too while both are -infinity: the row has seen no key.
      const bool moves = (largest - max_[r]) * c > kSlack;
      const float old = max_[r];
      max_[r] = moves ? largest : old;
      base[r] = max_[r] == kNegativeInfinity ? 0.0f : max_[r] * c;
      rescale[r] = moves ? Exp2(old * c - base[r]) : 1.0f;
      sum_[r] *= rescale[r];
      moved = moved || moves;
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < kCount; i += 4) {
#pragma unroll
        for (int j = 2 * r; j < 2 * r + 2; ++j) {
          s[i + j] = Exp2(fmaf(s[i + j], c, -base[r]));
          sum += s[i + j];
        }
      }
      sum_[r] += sum;
    }
    return __any_sync(0xFFFFFFFFu, moved);
  }

  template <int kCount>
  __device__ __forceinline__ void Update(float (&s)[kCount], float c) {
    float unused[2];
    Update(s, c, unused);
  }

  // Adds up the quad's sums and fixes the units.
  __device__ __forceinline__ void Finish(float c) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      sum_[r] = QuadSum(sum_[r]);
      max_[r] = max_[r] == kNegativeInfinity ? max_[r] : max_[r] * c;
    }
  }

  // After Finish: the largest logit in log2 units, and the sum relative to it.
  __device__ __forceinline__ float max(int r) const { return max_[r]; }
  __device__ __forceinline__ float sum(int r) const { return sum_[r]; }

 private:
  float max_[2] = {kNegativeInfinity, kNegativeInfinity};
  float sum_[2] = {0.0f, 0.0f};
};

// What ends a row: the factor of its outputs and its natural-log sum.
struct RowEnd {
  float factor;
  float lse;
};

// max in log2 units. A sink (natural units) joins rows that are not empty.
__device__ __forceinline__ RowEnd EndRow(float max, float sum,
                                         const float* sink) {
  if (!(sum > 0.0f)) return {0.0f, kNegativeInfinity};
  float factor = 1.0f;
  if (sink != nullptr) {
    const float sink_log2 = *sink * kLog2E;
    const float largest = fmaxf(max, sink_log2);
    factor = Exp2(max - largest);
    sum = sum * factor + Exp2(sink_log2 - largest);
    max = largest;
  }
  return {factor / sum, (max + __log2f(sum)) * kLn2};
}

// Lane q of a quad gives word j and gets, as its word j, word q of lane j.
__device__ __forceinline__ void TransposeQuad(uint32_t (&words)[4],
                                              int quad_lane) {
#pragma unroll
  for (int bit = 1; bit <= 2; bit *= 2) {
    const bool high = (quad_lane & bit) != 0;
#pragma unroll
    for (int low = 0; low < 4; ++low) {
      if ((low & bit) != 0) continue;
      const uint32_t sent = high ? words[low] : words[low | bit];
      const uint32_t got = __shfl_xor_sync(0xFFFFFFFFu, sent, bit);
      words[low] = high ? got : words[low];
      words[low | bit] = high ? words[low | bit] : got;
    }
  }
}

}  // namespace interleave::attention::hopper

#endif  // ATTENTION_HOPPER_SOFTMAX_CUH_
