// Launchers of the scheduling kernels.

#ifndef ATTENTION_PLAN_KERNELS_H_
#define ATTENTION_PLAN_KERNELS_H_

#include <cstdint>

#include "attention/kernel_params.h"
#include "attention/tile_schedule.h"
#include "base/arena.h"
#include "cuda_runtime_api.h"

namespace interleave::attention {

// Device memory that the scheduling kernels write; `begin` arrays have
// max_batch + 1 entries, but for decode items kItemClasses x max_batch + 1: the
// classes one after the other, with an entry of each sequence in each.
struct ScheduleMemory {
  SequenceInfo* sequences = nullptr;
  ScheduleHeader* header = nullptr;
  WorkItem* items[kNumRoles] = {nullptr, nullptr};
  CombineItem* combines = nullptr;
  int32_t* token_sequence = nullptr;
  int32_t* item_begin[kNumRoles] = {nullptr, nullptr};
  int32_t* combine_begin = nullptr;
  int32_t* partial_begin = nullptr;
  int32_t max_items[kNumRoles] = {0, 0};
  int32_t max_combines = 0;
  int64_t max_partial_rows = 0;
};

// Its pieces, for batches within the bounds.
inline ScheduleMemory TakeScheduleMemory(const ScheduleBounds& bounds,
                                         int64_t max_batch,
                                         int64_t max_total_new, Arena* arena) {
  ScheduleMemory memory;
  memory.header = arena->Take<ScheduleHeader>(1);
  memory.sequences = arena->Take<SequenceInfo>(max_batch);
  for (int r = 0; r < kNumRoles; ++r) {
    const int64_t lists = r == static_cast<int>(Role::kDecode)
                              ? kItemClasses * max_batch
                              : max_batch;
    memory.item_begin[r] = arena->Take<int32_t>(lists + 1);
    memory.items[r] = arena->Take<WorkItem>(bounds.max_items[r]);
    memory.max_items[r] = static_cast<int32_t>(bounds.max_items[r]);
  }
  memory.combine_begin = arena->Take<int32_t>(max_batch + 1);
  memory.partial_begin = arena->Take<int32_t>(max_batch + 1);
  memory.combines = arena->Take<CombineItem>(bounds.max_combines);
  memory.max_combines = static_cast<int32_t>(bounds.max_combines);
  memory.max_partial_rows = bounds.max_partial_rows;
  memory.token_sequence = arena->Take<int32_t>(max_total_new);
  return memory;
}

// Counts tiles and splits, one block. raw points to device memory.
cudaError_t LaunchScheduleCount(const SchedulePolicy& policy,
                                const RawLengths& raw,
                                const ScheduleMemory& memory,
                                cudaStream_t stream);

// Writes items, combines and token_sequence.
cudaError_t LaunchScheduleFill(const SchedulePolicy& policy,
                               const RawLengths& raw,
                               const ScheduleMemory& memory, int32_t num_sms,
                               cudaStream_t stream);

// What a check of device-side metadata found first.
enum class MetadataFault : int32_t {
  kNone = 0,
  kQueryOffsets,  // cu_seqlens_q decreases, or leaves [0, total_q]
  kKeyOffsets,    // cu_seqlens_k likewise
  kNewOffsets,    // cu_seqlens_new likewise
  kCacheLength,   // cache_seqlens below -1
  kTooLong,       // a length passes max_seqlen_k
  kBlockId,       // a block that a length needs is outside the cache
};

struct MetadataReport {
  MetadataFault fault;
  int32_t sequence;
  int32_t index;  // entry of the block table's row
  int32_t unused;
  int64_t value;
};

// Both write *report (device memory), kNone where all is well.
cudaError_t LaunchCheckLengths(const RawLengths& raw, MetadataReport* report,
                               cudaStream_t stream);
cudaError_t LaunchCheckBlocks(const SequenceInfo* sequences, int32_t batch,
                              const int32_t* block_table, int64_t row_stride,
                              int32_t block_size, int64_t num_blocks,
                              MetadataReport* report, cudaStream_t stream);

}  // namespace interleave::attention

#endif  // ATTENTION_PLAN_KERNELS_H_
