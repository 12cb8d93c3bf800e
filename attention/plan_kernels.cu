#include <cstdint>

#include "attention/kernel_params.h"
#include "attention/plan_kernels.h"
#include "attention/tile_schedule.h"

namespace interleave::attention {
namespace {

constexpr int kCountThreads = 1024;
constexpr int kFillThreads = 256;
constexpr int kSums = 4;  // scanned or reduced together
constexpr int kPrefill = static_cast<int>(Role::kPrefill);
constexpr int kDecode = static_cast<int>(Role::kDecode);

// Lists of a role's items, one after the other, with an entry of each sequence.
__device__ int32_t ListsOf(int role) {
  return role == kDecode ? kItemClasses : 1;
}

// Exclusive scan over the block of kSums values; *totals gets the sums.
__device__ void BlockScan(int64_t (&values)[kSums], int64_t (&totals)[kSums]) {
  __shared__ int64_t warp_sums[kSums][kCountThreads / 32];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  int64_t inclusive[kSums];
  for (int i = 0; i < kSums; ++i) {
    int64_t x = values[i];
    for (int d = 1; d < 32; d *= 2) {
      const int64_t below = __shfl_up_sync(0xffffffffu, x, d);
      if (lane >= d) x += below;
    }
    inclusive[i] = x;
    if (lane == 31) warp_sums[i][warp] = x;
  }
  __syncthreads();
  if (warp < kSums) {
    const int64_t own = warp_sums[warp][lane];
    int64_t x = own;
    for (int d = 1; d < 32; d *= 2) {
      const int64_t below = __shfl_up_sync(0xffffffffu, x, d);
      if (lane >= d) x += below;
    }
    warp_sums[warp][lane] = x;
  }
  __syncthreads();
  for (int i = 0; i < kSums; ++i) {
    const int64_t before = warp == 0 ? 0 : warp_sums[i][warp - 1];
    values[i] = before + inclusive[i] - values[i];
    totals[i] = warp_sums[i][kCountThreads / 32 - 1];
  }
  __syncthreads();
}

// For all threads, which see all `sequences`. `work`: the keys that the batch's
// decodes read together.
__device__ int32_t CountedChunkKeys(const SchedulePolicy& policy, int32_t batch,
                                    const SequenceInfo* sequences,
                                    int64_t work) {
  __shared__ unsigned long long items[kDecodeChunks];
  __shared__ int32_t longest[kDecodeChunks];
  __shared__ int32_t chosen;
  if (threadIdx.x < kDecodeChunks) {
    items[threadIdx.x] = 0;
    longest[threadIdx.x] = 0;
  }
  __syncthreads();
  // Warps of a chunk each.
  constexpr int kThreads = kCountThreads / kDecodeChunks;
  static_assert(kThreads % 32 == 0);
  const int own_chunk = threadIdx.x / kThreads;
  const int32_t keys = DecodeChunkKeys(policy, own_chunk, work);
  DecodeCuts own;
  for (int32_t b = threadIdx.x % kThreads; b < batch; b += kThreads) {
    const DecodeCuts of_b = CutsOf(policy, sequences[b], keys);
    own.items += of_b.items;
    if (of_b.longest > own.longest) own.longest = of_b.longest;
  }
  for (int d = 16; d > 0; d /= 2) {
    own.items += __shfl_xor_sync(0xffffffffu, own.items, d);
    const int32_t other = __shfl_xor_sync(0xffffffffu, own.longest, d);
    if (other > own.longest) own.longest = other;
  }
  // Whole numbers: the order of the warps does not matter.
  if (threadIdx.x % 32 == 0 && own.items > 0) {
    atomicAdd(&items[own_chunk], static_cast<unsigned long long>(own.items));
    atomicMax(&longest[own_chunk], own.longest);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    DecodeCuts cuts[kDecodeChunks];
    for (int i = 0; i < kDecodeChunks; ++i) {
      cuts[i].items = static_cast<int64_t>(items[i]);
      cuts[i].longest = longest[i];
    }
    chosen = BestDecodeChunk(policy, cuts, work);
  }
  __syncthreads();
  return chosen;
}

__device__ int32_t Cap(int64_t value, int64_t bound) {
  return static_cast<int32_t>(value < bound ? value : bound);
}

__global__ void __launch_bounds__(kCountThreads)
    ScheduleCountKernel(const SchedulePolicy policy, const RawLengths raw,
                        const ScheduleMemory memory) {
  // Sums: tiles and keys of the two roles.
  int64_t sums[kSums] = {0, 0, 0, 0};
  for (int32_t b = threadIdx.x; b < raw.batch; b += kCountThreads) {
    const SequenceInfo s = ReadSequence(raw, b);
    memory.sequences[b] = s;
    const bool decode = RoleOf(policy, s) == Role::kDecode;
    sums[decode ? 1 : 0] += TilesOf(policy, s);
    sums[decode ? 3 : 2] += WorkOf(policy, s);
  }
  int64_t totals[kSums];
  BlockScan(sums, totals);
  const int64_t decode_work = totals[3];
  int32_t chunk[kNumRoles];
  chunk[kPrefill] =
      EqualChunkKeys(policy, Role::kPrefill, totals[0], totals[2]);
  chunk[kDecode] =
      CountsDecodeCuts(policy, decode_work)
          ? CountedChunkKeys(policy, raw.batch, memory.sequences, decode_work)
          : EqualChunkKeys(policy, Role::kDecode, totals[1], decode_work);
  // Decode items of each class, and from that where each class begins.
  static_assert(kSums == kItemClasses);
  int64_t classes[kSums] = {0, 0, 0, 0};
  for (int32_t b = threadIdx.x; b < raw.batch; b += kCountThreads) {
    const SequenceCounts counts =
        CountSequence(policy, memory.sequences[b], chunk);
    classes[counts.item_class] += counts.items[kDecode];
  }
  BlockScan(classes, totals);
  int64_t class_carry[kSums];
  int64_t decode_items = 0;
  for (int i = 0; i < kItemClasses; ++i) {
    class_carry[i] = decode_items;
    decode_items += totals[i];
  }
  int64_t carry[kSums] = {0, 0, 0, 0};
  for (int32_t base = 0; base < raw.batch; base += kCountThreads) {
    const int32_t b = base + static_cast<int32_t>(threadIdx.x);
    SequenceCounts counts;
    if (b < raw.batch)
      counts = CountSequence(policy, memory.sequences[b], chunk);
    int64_t places[kSums] = {counts.items[kPrefill], counts.combines,
                             counts.partial_rows, 0};
    BlockScan(places, totals);
    if (b < raw.batch) {
      memory.item_begin[kPrefill][b] =
          Cap(carry[0] + places[0], memory.max_items[kPrefill]);
      memory.combine_begin[b] = Cap(carry[1] + places[1], memory.max_combines);
      memory.partial_begin[b] =
          Cap(carry[2] + places[2], memory.max_partial_rows);
    }
    for (int i = 0; i < kSums; ++i) carry[i] += totals[i];
    int64_t in_class[kSums] = {0, 0, 0, 0};
    in_class[counts.item_class] = counts.items[kDecode];
    BlockScan(in_class, totals);
    for (int i = 0; i < kItemClasses; ++i) {
      if (b < raw.batch) {
        memory.item_begin[kDecode][int64_t{i} * raw.batch + b] =
            Cap(class_carry[i] + in_class[i], memory.max_items[kDecode]);
      }
      class_carry[i] += totals[i];
    }
  }
  if (threadIdx.x == 0) {
    ScheduleHeader header;
    header.num_items[kPrefill] = Cap(carry[0], memory.max_items[kPrefill]);
    header.num_items[kDecode] = Cap(decode_items, memory.max_items[kDecode]);
    for (int r = 0; r < kNumRoles; ++r) {
      memory.item_begin[r][int64_t{ListsOf(r)} * raw.batch] =
          header.num_items[r];
      header.chunk[r] = chunk[r];
    }
    header.num_combines = Cap(carry[1], memory.max_combines);
    header.num_new_tokens =
        raw.append ? static_cast<int32_t>(raw.total_new) : 0;
    *memory.header = header;
  }
}

// The last index in [0, n) whose value is at most x, where begin[0] <= x.
template <typename Begin>
__device__ int32_t LastAtMost(int32_t n, int32_t x, const Begin& begin) {
  int32_t low = 0;
  int32_t high = n;
  while (high - low > 1) {
    const int32_t middle = low + (high - low) / 2;
    if (begin(middle) <= x) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

__device__ void FillItem(const SchedulePolicy& policy, const RawLengths& raw,
                         const ScheduleMemory& memory, int r, int32_t index) {
  const int32_t* begin = memory.item_begin[r];
  const int32_t entry = LastAtMost(ListsOf(r) * raw.batch, index,
                                   [begin](int32_t i) { return begin[i]; });
  const int32_t b = entry % raw.batch;
  ItemPlace place;
  place.combine_begin = memory.combine_begin[b];
  place.partial_begin = memory.partial_begin[b];
  CombineItem combine;
  int64_t combine_index;
  memory.items[r][index] =
      FindItem(policy, memory.sequences[b], b, memory.header->chunk,
               index - begin[entry], place, &combine, &combine_index);
  if (combine_index >= 0 && combine_index < memory.max_combines) {
    memory.combines[combine_index] = combine;
  }
}

__global__ void __launch_bounds__(kFillThreads)
    ScheduleFillKernel(const SchedulePolicy policy, const RawLengths raw,
                       const ScheduleMemory memory) {
  const int64_t first = int64_t{blockIdx.x} * kFillThreads + threadIdx.x;
  const int64_t step = int64_t{gridDim.x} * kFillThreads;
  for (int r = 0; r < kNumRoles; ++r) {
    const int32_t count = memory.header->num_items[r];
    for (int64_t i = first; i < count; i += step) {
      FillItem(policy, raw, memory, r, static_cast<int32_t>(i));
    }
  }
  if (!raw.append) return;
  for (int64_t t = first; t < raw.total_new; t += step) {
    int32_t owner = -1;
    if (raw.batch > 0) {
      const SequenceInfo* sequences = memory.sequences;
      const int32_t token = static_cast<int32_t>(t);
      const int32_t b = LastAtMost(raw.batch, token, [sequences](int32_t i) {
        return sequences[i].new_begin;
      });
      const int32_t into = token - sequences[b].new_begin;
      if (into >= 0 && into < sequences[b].new_len) owner = b;
    }
    memory.token_sequence[t] = owner;
  }
}

// Keeps a thread's fault of the lowest key; one block checks, so that shared
// memory finds the lowest of all.
__device__ void Note(unsigned long long* lowest, unsigned long long* own_key,
                     MetadataReport* own, int64_t key,
                     const MetadataReport& report) {
  const auto unsigned_key = static_cast<unsigned long long>(key);
  if (unsigned_key >= *own_key) return;
  *own_key = unsigned_key;
  *own = report;
  atomicMin(lowest, unsigned_key);
}

// `begin <= end` within [0, total]?
__device__ bool BadOffsets(const int32_t* offsets, int32_t b, int64_t total) {
  return offsets[b] < 0 || offsets[b] > offsets[b + 1] ||
         offsets[b + 1] > total || (b == 0 && offsets[0] != 0);
}

__global__ void CheckLengthsKernel(const RawLengths raw,
                                   MetadataReport* report) {
  __shared__ unsigned long long lowest;
  if (threadIdx.x == 0) {
    lowest = ~0ull;
    *report = {MetadataFault::kNone, 0, 0, 0, 0};
  }
  __syncthreads();
  unsigned long long own_key = ~0ull;
  MetadataReport own;
  for (int32_t b = threadIdx.x; b < raw.batch; b += blockDim.x) {
    MetadataFault fault = MetadataFault::kNone;
    int64_t value = 0;
    if (raw.cu_seqlens_q != nullptr &&
        BadOffsets(raw.cu_seqlens_q, b, raw.total_q)) {
      fault = MetadataFault::kQueryOffsets;
      value = raw.cu_seqlens_q[b + 1];
    } else if (raw.cu_seqlens_k != nullptr &&
               BadOffsets(raw.cu_seqlens_k, b, raw.max_seqlen_k)) {
      fault = MetadataFault::kKeyOffsets;
      value = raw.cu_seqlens_k[b + 1];
    } else if (raw.append && raw.cu_seqlens_new != nullptr &&
               BadOffsets(raw.cu_seqlens_new, b, raw.total_new)) {
      fault = MetadataFault::kNewOffsets;
      value = raw.cu_seqlens_new[b + 1];
    } else if (raw.cache_seqlens != nullptr && raw.cache_seqlens[b] < -1) {
      fault = MetadataFault::kCacheLength;
      value = raw.cache_seqlens[b];
    } else if (raw.cache_seqlens != nullptr && raw.cache_seqlens[b] >= 0) {
      int64_t length = raw.cache_seqlens[b];
      if (raw.append) {
        const int32_t* offsets = raw.cu_seqlens_new != nullptr
                                     ? raw.cu_seqlens_new
                                     : raw.cu_seqlens_q;
        length += offsets != nullptr ? offsets[b + 1] - offsets[b] : 1;
      }
      if (length > raw.max_seqlen_k) {
        fault = MetadataFault::kTooLong;
        value = length;
      }
    }
    if (fault != MetadataFault::kNone) {
      Note(&lowest, &own_key, &own, b, {fault, b, 0, 0, value});
    }
  }
  __syncthreads();
  if (own_key == lowest && lowest != ~0ull) *report = own;
}

__global__ void CheckBlocksKernel(const SequenceInfo* sequences, int32_t batch,
                                  const int32_t* block_table,
                                  int64_t row_stride, int32_t block_size,
                                  int64_t num_blocks, MetadataReport* report) {
  __shared__ unsigned long long lowest;
  if (threadIdx.x == 0) {
    lowest = ~0ull;
    *report = {MetadataFault::kNone, 0, 0, 0, 0};
  }
  __syncthreads();
  unsigned long long own_key = ~0ull;
  MetadataReport own;
  for (int32_t b = 0; b < batch; ++b) {
    const int64_t blocks = CeilDiv(sequences[b].k_len, block_size);
    for (int64_t i = threadIdx.x; i < blocks; i += blockDim.x) {
      const int32_t id = block_table[b * row_stride + i];
      if (id < 0 || id >= num_blocks) {
        Note(&lowest, &own_key, &own, (int64_t{b} << 32) | i,
             {MetadataFault::kBlockId, b, static_cast<int32_t>(i), 0, id});
      }
    }
  }
  __syncthreads();
  if (own_key == lowest && lowest != ~0ull) *report = own;
}

}  // namespace

cudaError_t LaunchScheduleCount(const SchedulePolicy& policy,
                                const RawLengths& raw,
                                const ScheduleMemory& memory,
                                cudaStream_t stream) {
  ScheduleCountKernel<<<1, kCountThreads, 0, stream>>>(policy, raw, memory);
  return cudaGetLastError();
}

cudaError_t LaunchScheduleFill(const SchedulePolicy& policy,
                               const RawLengths& raw,
                               const ScheduleMemory& memory, int32_t num_sms,
                               cudaStream_t stream) {
  const int64_t most = int64_t{memory.max_items[0]} + memory.max_items[1] +
                       (raw.append ? raw.total_new : 0);
  int64_t blocks = CeilDiv(most, kFillThreads);
  blocks = Clamp(blocks, 1, int64_t{4} * num_sms);
  ScheduleFillKernel<<<static_cast<unsigned>(blocks), kFillThreads, 0,
                       stream>>>(policy, raw, memory);
  return cudaGetLastError();
}

cudaError_t LaunchCheckLengths(const RawLengths& raw, MetadataReport* report,
                               cudaStream_t stream) {
  CheckLengthsKernel<<<1, kCountThreads, 0, stream>>>(raw, report);
  return cudaGetLastError();
}

cudaError_t LaunchCheckBlocks(const SequenceInfo* sequences, int32_t batch,
                              const int32_t* block_table, int64_t row_stride,
                              int32_t block_size, int64_t num_blocks,
                              MetadataReport* report, cudaStream_t stream) {
  CheckBlocksKernel<<<1, kCountThreads, 0, stream>>>(
      sequences, batch, block_table, row_stride, block_size, num_blocks,
      report);
  return cudaGetLastError();
}

}  // namespace interleave::attention
