// What a forward kernel is given: one POD for all three paths and for every
// family of kernels (portable/, hopper/). Plain C++ without CUDA headers.
//
// Design
// - A plan turns lengths on the device into a list of work items once an
//   iteration (tile_schedule.h). Kernels never look at cu_seqlens or
//   cache_seqlens: `sequences` holds each sequence's offsets and lengths,
//   already with this call's appended tokens counted in.
// - GQA is packed: the rows of a (sequence, KV head) are its (token, head in
//   group) pairs, row = token * group_size + head_in_group. A tile of rows
//   serves several query heads with one read of K and V, whatever the ratio.
// - Two roles. A sequence whose packed rows fit one small tile is kDecode,
//   others are kPrefill, each with its own list, counter and launch, so a
//   prompt chunk in the batch never puts decodes on large tiles. Roles depend
//   on the sequence alone.
// - A launch is 1-D and persistent: blocks take items from `counters[role]`
//   (atomicAdd on next; whichever block leaves last zeroes it) until
//   `header->num_items[role]`. The grid is sized by the device, not by lengths,
//   so a captured graph replays right for any lengths.
// - An item covers keys [kv_begin, kv_end) of its sequence for all its rows,
//   already clipped to what mask and window let any of its rows see; keys
//   outside must not be loaded (their pages may hold NaN, or not exist).
//   Kernels walk kv tiles aligned to multiples of their tile size from position
//   0 and mask both ends. Values of masked-out positions must be zero-filled,
//   not only their weights: 0 * NaN is NaN.
// - Split-KV: an item with partial_row >= 0 writes its rows' normalised output
//   in float and their natural-log sums to partial_out / partial_lse, rows
//   partial_row + (row - row_begin); an item with partial_row < 0 writes out
//   and lse. Sinks join in the final write alone (unsplit item, or combine),
//   never in a partial. A row that sees no key has lse -infinity and output
//   zero (a partial's output may then stay unwritten: combine skips it).
// - Appending is a pass of its own before the forward kernels on the same
//   stream, and so is the rotation of queries; `q` is then the rotated copy.

#ifndef ATTENTION_KERNEL_PARAMS_H_
#define ATTENTION_KERNEL_PARAMS_H_

#include <cstdint>

#include "attention/params.h"

#ifdef __CUDACC__
#define ATTENTION_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define ATTENTION_HOST_DEVICE inline
#endif

namespace interleave::attention {

enum class Role : int32_t { kPrefill = 0, kDecode = 1 };
inline constexpr int kNumRoles = 2;

// Division of [0, 2^31) by a divisor in [1, 2^31) known at launch.
// Source: Granlund and Montgomery, "Division by invariant integers using
// multiplication", 1994.
struct FastDivisor {
  uint32_t divisor = 1;
  uint32_t multiplier = 0;
  uint32_t shift = 0;

  FastDivisor() = default;
  explicit FastDivisor(uint32_t d) : divisor(d) {
    if (d == 1) return;
    uint32_t log = 0;
    while ((uint64_t{1} << log) < d) ++log;
    const uint32_t power = 31 + log;
    multiplier = static_cast<uint32_t>(((uint64_t{1} << power) + d - 1) / d);
    shift = power - 32;
  }

  ATTENTION_HOST_DEVICE uint32_t Divide(uint32_t n) const {
    if (divisor == 1) return n;
#ifdef __CUDA_ARCH__
    return __umulhi(n, multiplier) >> shift;
#else
    return static_cast<uint32_t>((uint64_t{n} * multiplier) >> 32) >> shift;
#endif
  }
};

// One sequence of the batch.
struct alignas(16) SequenceInfo {
  int32_t q_begin;     // first row of q, out and lse
  int32_t q_len;       // query tokens
  int32_t k_begin;     // contiguous keys: first row of k and v; paged: 0
  int32_t k_len;       // keys, appended ones included
  int32_t new_begin;   // first row of the appended k and v
  int32_t new_len;     // appended tokens; 0 for none
  int32_t append_pos;  // position of the first appended token
  int32_t unused;
};

// One tile: rows [row_begin, row_begin + row_count) of (batch, kv_head) against
// keys [kv_begin, kv_end), which may be empty (the rows' output is then zero).
struct alignas(16) WorkItem {
  int32_t batch;
  int32_t kv_head;
  int32_t row_begin;
  int32_t row_count;
  int32_t kv_begin;
  int32_t kv_end;
  int32_t partial_row;  // -1: final output
  int32_t split;        // which split of its tile, from 0
};

// One split tile to combine: split s has its rows at partial_row + s *
// row_count.
struct alignas(16) CombineItem {
  int32_t batch;
  int32_t kv_head;
  int32_t row_begin;
  int32_t row_count;
  int32_t partial_row;
  int32_t num_splits;
  int32_t unused[2];
};

// Counts that the scheduling kernel found.
struct ScheduleHeader {
  int32_t num_items[kNumRoles];
  int32_t num_combines;
  int32_t num_new_tokens;
  int32_t chunk[kNumRoles];  // keys a split; INT32_MAX: no splits
};

// Self-resetting ticket dispenser of one role.
struct WorkCounter {
  int32_t next;
  int32_t done;
};

// Device memory of a plan.
struct Schedule {
  const SequenceInfo* sequences;  // [batch]
  const ScheduleHeader* header;
  const WorkItem* items[kNumRoles];
  WorkCounter* counters;  // [kNumRoles]
  const CombineItem* combines;
  const int32_t* token_sequence;  // [total_new]: whose an appended token is
  float* partial_out;             // [max_partial_rows, head_dim]
  float* partial_lse;             // [max_partial_rows]
  int32_t max_items[kNumRoles];   // bounds; 0: the role cannot occur
  int32_t max_combines;
  int32_t batch;
};

struct KernelParams {
  // [total_q, num_heads, head_dim]; strides in elements.
  const void* q;
  int64_t q_token_stride;
  int64_t q_head_stride;
  void* out;
  int64_t out_token_stride;
  int64_t out_head_stride;
  // lse[head * lse_head_stride + token], or null.
  float* lse;
  int64_t lse_head_stride;

  // Key j of a sequence, contiguous (block_table null):
  //   k + (k_begin + j) * k_token_stride + kv_head * k_head_stride
  // paged:
  //   k + block_table[batch * block_table_stride + j / page_size]
  //     * k_block_stride + (j % page_size) * k_token_stride + kv_head * ...
  const void* k;
  const void* v;
  int64_t k_block_stride;
  int64_t k_token_stride;
  int64_t k_head_stride;
  int64_t v_block_stride;
  int64_t v_token_stride;
  int64_t v_head_stride;
  const int32_t* block_table;
  int64_t block_table_stride;
  // Ids outside [0, num_blocks) are not dereferenced. Contiguous: 0.
  int64_t num_blocks;
  int32_t page_size;
  FastDivisor page_divisor;
  // Rows of contiguous k and v (for tensor maps); paged: 0.
  int64_t total_k;
  int64_t total_q;

  DataType dtype;
  int32_t head_dim;
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t group_size;
  FastDivisor group_divisor;

  float softmax_scale;
  float scale_log2;  // softmax_scale * log2(e)
  float softcap;     // 0: off
  const float* sinks;
  // -1: unbounded. Causal is window_right = 0.
  int32_t window_left;
  int32_t window_right;

  Schedule schedule;
  int32_t device;
  int32_t num_sms;
};

}  // namespace interleave::attention

#endif  // ATTENTION_KERNEL_PARAMS_H_
