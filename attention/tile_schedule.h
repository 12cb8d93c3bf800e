// Which thread block does which tile: turns a batch's lengths into work items.
// The same code runs in the scheduling kernel (plan_kernels.cu) and on the host
// (BuildSchedule), where it is tested.
//
// Rules
// - A sequence's role and its row tiles depend on its own lengths alone.
// - A tile's keys are cut into splits where the batch has too few tiles to fill
//   the device; split boundaries are multiples of the kv tile from position 0.
// - Batch-invariant mode cuts by the sequence's own length alone.
// - Every bound (items, combines, partial rows) follows from the maxima of the
//   plan, for any lengths; ScheduleBounds computes them.

#ifndef ATTENTION_TILE_SCHEDULE_H_
#define ATTENTION_TILE_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "attention/kernel_params.h"

namespace interleave::attention {

// What the schedule depends on besides lengths.
struct SchedulePolicy {
  int32_t num_kv_heads = 1;
  int32_t group_size = 1;
  int32_t window_left = -1;  // -1: unbounded
  int32_t window_right = -1;
  int32_t rows[kNumRoles] = {64, 16};    // packed rows of a tile
  int32_t kv[kNumRoles] = {64, 64};      // keys of a kv tile
  int32_t resident[kNumRoles] = {1, 1};  // thread blocks that run at once
  bool batch_invariant = false;
};

// The lengths as the caller holds them; see BatchMetadata.
struct RawLengths {
  int32_t batch = 0;
  int64_t total_q = 0;
  const int32_t* cu_seqlens_q = nullptr;
  const int32_t* cu_seqlens_k = nullptr;
  const int32_t* cache_seqlens = nullptr;
  bool append = false;
  const int32_t* cu_seqlens_new = nullptr;
  int64_t total_new = 0;
  int64_t max_seqlen_k = 0;
};

inline constexpr int32_t kNoSplit = 0x7fffffff;

// Decode tiles are cut into at most about this many splits (or one for each
// resident thread block, where those are more).
inline constexpr int32_t kMaxDecodeSplits = 2048;
// What an item costs beside its keys, in keys: filling its pipeline, merging.
// In many rounds of decode items, half of it hides behind other thread blocks.
inline constexpr int32_t kPrefillOverheadKeys = 256;
inline constexpr int32_t kDecodeOverheadKeys = 128;
inline constexpr int32_t kCountedOverheadKeys = 256;
// Up to so many keys for each resident thread block, a decode batch is split by
// counting what it is cut into. There, counting tells one round of the thread
// blocks from two, which is 5 us a layer on an H200. With more keys rounds no
// longer decide, and tiles that are taken to be equal were split better
// (docs/kernel_notes.md).
inline constexpr int32_t kCountedShareKeys = 1152;
// Rounds of the resident thread blocks that splitting looks ahead. Partial
// results of prefill tiles are large, so they get fewer.
inline constexpr int32_t kPrefillMaxWaves = 2;
inline constexpr int32_t kDecodeMaxWaves = 8;
inline constexpr int32_t kMinChunkTiles = 2;

// Batch-invariant mode: splits of at least this many keys, at most this many.
inline constexpr int32_t kInvariantChunk = 1024;
inline constexpr int32_t kInvariantMaxSplits = 16;

ATTENTION_HOST_DEVICE int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
ATTENTION_HOST_DEVICE int64_t Clamp(int64_t x, int64_t low, int64_t high) {
  return x < low ? low : (x > high ? high : x);
}

// Reads sequence b, clipped to the sizes of the tensors, so that no lengths
// found on the device make a kernel leave them.
ATTENTION_HOST_DEVICE SequenceInfo ReadSequence(const RawLengths& raw,
                                                int32_t b) {
  SequenceInfo s;
  int64_t q_begin = b;
  int64_t q_end = int64_t{b} + 1;
  if (raw.cu_seqlens_q != nullptr) {
    q_begin = raw.cu_seqlens_q[b];
    q_end = raw.cu_seqlens_q[b + 1];
  }
  q_begin = Clamp(q_begin, 0, raw.total_q);
  q_end = Clamp(q_end, q_begin, raw.total_q);
  s.q_begin = static_cast<int32_t>(q_begin);
  s.q_len = static_cast<int32_t>(q_end - q_begin);
  s.k_begin = 0;
  s.new_begin = s.q_begin;
  s.new_len = 0;
  s.append_pos = 0;
  s.unused = 0;
  if (raw.cu_seqlens_k != nullptr) {
    const int64_t begin = Clamp(raw.cu_seqlens_k[b], 0, raw.max_seqlen_k);
    const int64_t end = Clamp(raw.cu_seqlens_k[b + 1], begin, raw.max_seqlen_k);
    s.k_begin = static_cast<int32_t>(begin);
    s.k_len = static_cast<int32_t>(end - begin);
    return s;
  }
  const int64_t cached = raw.cache_seqlens[b];
  const int64_t old_len = Clamp(cached, 0, raw.max_seqlen_k);
  int64_t new_len = 0;
  if (raw.append) {
    int64_t begin = q_begin;
    int64_t end = q_end;
    if (raw.cu_seqlens_new != nullptr) {
      begin = raw.cu_seqlens_new[b];
      end = raw.cu_seqlens_new[b + 1];
    }
    begin = Clamp(begin, 0, raw.total_new);
    end = Clamp(end, begin, raw.total_new);
    // Set for padding rows too: a token's sequence is found by these.
    s.new_begin = static_cast<int32_t>(begin);
    new_len = Clamp(end - begin, 0, raw.max_seqlen_k - old_len);
  }
  if (cached < 0) {  // a padding row
    s.k_len = 0;
    return s;
  }
  s.new_len = static_cast<int32_t>(new_len);
  s.append_pos = static_cast<int32_t>(old_len);
  s.k_len = static_cast<int32_t>(old_len + new_len);
  return s;
}

ATTENTION_HOST_DEVICE int64_t PackedRows(const SchedulePolicy& policy,
                                         const SequenceInfo& s) {
  return int64_t{s.q_len} * policy.group_size;
}

ATTENTION_HOST_DEVICE Role RoleOf(const SchedulePolicy& policy,
                                  const SequenceInfo& s) {
  return PackedRows(policy, s) <= policy.rows[static_cast<int>(Role::kDecode)]
             ? Role::kDecode
             : Role::kPrefill;
}

ATTENTION_HOST_DEVICE int32_t RowTiles(const SchedulePolicy& policy,
                                       const SequenceInfo& s, Role role) {
  return static_cast<int32_t>(
      CeilDiv(PackedRows(policy, s), policy.rows[static_cast<int>(role)]));
}

struct KvRange {
  int32_t begin;
  int32_t end;
};

// The keys that at least one of the rows sees; {0, 0} for none.
ATTENTION_HOST_DEVICE KvRange TileKvRange(const SchedulePolicy& policy,
                                          const SequenceInfo& s,
                                          int32_t row_begin,
                                          int32_t row_count) {
  const int64_t first = row_begin / policy.group_size;
  const int64_t last = (row_begin + row_count - 1) / policy.group_size;
  const int64_t shift = int64_t{s.k_len} - s.q_len;
  int64_t begin = 0;
  int64_t end = s.k_len;
  if (policy.window_left >= 0) {
    begin = Clamp(first + shift - policy.window_left, 0, s.k_len);
  }
  if (policy.window_right >= 0) {
    end = Clamp(last + shift + policy.window_right + 1, 0, s.k_len);
  }
  if (begin >= end) return {0, 0};
  return {static_cast<int32_t>(begin), static_cast<int32_t>(end)};
}

// A chunk that splits can have.
ATTENTION_HOST_DEVICE int32_t WholeChunk(int64_t keys, int64_t kv) {
  int64_t chunk = CeilDiv(keys, kv) * kv;
  if (chunk < kMinChunkTiles * kv) chunk = kMinChunkTiles * kv;
  return chunk >= kNoSplit ? kNoSplit : static_cast<int32_t>(chunk);
}

// The shortest chunk for which a decode batch's splits have room.
ATTENTION_HOST_DEVICE int64_t LeastDecodeChunk(int64_t resident, int64_t work) {
  return CeilDiv(work,
                 resident > kMaxDecodeSplits ? resident : kMaxDecodeSplits);
}

// Keys a split for tiles of about equal length: of the lengths that fill one or
// more rounds of the resident thread blocks, the one that ends first.
ATTENTION_HOST_DEVICE int64_t FillRounds(Role role, int64_t resident,
                                         int64_t kv, int64_t tiles,
                                         int64_t work) {
  if (work == 0) return 0;
  const bool decode = role == Role::kDecode;
  const int64_t overhead = decode ? kDecodeOverheadKeys : kPrefillOverheadKeys;
  const int64_t max_waves = decode ? kDecodeMaxWaves : kPrefillMaxWaves;
  const int64_t length = CeilDiv(work, tiles);
  const int64_t share = CeilDiv(work, resident);
  int64_t best = share;
  int64_t best_cost = -1;
  for (int64_t waves = 1; waves <= max_waves; ++waves) {
    const int64_t most = waves * resident / tiles;  // splits of a tile
    int64_t chunk = CeilDiv(length, most > 0 ? most : 1);
    // Where lengths vary, no split may take two shares of the whole.
    if (chunk > 2 * share) chunk = 2 * share;
    chunk = WholeChunk(chunk, kv);
    const int64_t splits = CeilDiv(length, chunk);
    const int64_t rounds = CeilDiv(splits * tiles, resident);
    const int64_t cost = rounds * (CeilDiv(length, splits) + overhead);
    if (best_cost < 0 || cost < best_cost) {
      best = chunk;
      best_cost = cost;
    }
  }
  return best;
}

// Keys a split for the whole batch as if its tiles were equal, given how many
// they are (times KV heads) and the keys that they read together.
ATTENTION_HOST_DEVICE int32_t EqualChunkKeys(const SchedulePolicy& policy,
                                             Role role, int64_t tiles,
                                             int64_t work) {
  const int r = static_cast<int>(role);
  if (policy.batch_invariant) return kNoSplit;  // PlanSplits has its own rule
  const int64_t resident = policy.resident[r];
  const int64_t kv = policy.kv[r];
  if (role == Role::kPrefill && tiles >= resident) return kNoSplit;
  int64_t chunk = FillRounds(role, resident, kv, tiles, work);
  if (role == Role::kDecode) {
    const int64_t least = LeastDecodeChunk(resident, work);
    if (chunk < least) chunk = least;
  }
  return WholeChunk(chunk, kv);
}

// Whether a decode batch is split by counting, or as if its tiles were equal.
ATTENTION_HOST_DEVICE bool CountsDecodeCuts(const SchedulePolicy& policy,
                                            int64_t work) {
  const int64_t resident = policy.resident[static_cast<int>(Role::kDecode)];
  return !policy.batch_invariant && work <= kCountedShareKeys * resident;
}

// Keys a split that are tried for a batch's decodes, as shares (in twelfths) of
// what a resident thread block has to read if all have as much.
inline constexpr int kDecodeChunks = 8;

ATTENTION_HOST_DEVICE int32_t DecodeChunkKeys(const SchedulePolicy& policy,
                                              int candidate, int64_t work) {
  constexpr int32_t kTwelfths[kDecodeChunks] = {4, 6, 8, 9, 12, 15, 18, 24};
  const int r = static_cast<int>(Role::kDecode);
  const int64_t resident = policy.resident[r];
  const int64_t share = CeilDiv(work, resident);
  int64_t keys = CeilDiv(share * kTwelfths[candidate], 12);
  const int64_t least = LeastDecodeChunk(resident, work);
  if (keys < least) keys = least;
  return WholeChunk(keys, policy.kv[r]);
}

// How a tile's keys are cut.
struct SplitPlan {
  int32_t num_splits;  // at least 1
  int32_t first_tile;  // kv tile of the first split
  int32_t tiles_a_split;
};

ATTENTION_HOST_DEVICE SplitPlan PlanSplits(const SchedulePolicy& policy,
                                           const SequenceInfo& s, Role role,
                                           int32_t chunk, KvRange range) {
  const int r = static_cast<int>(role);
  const int64_t kv = policy.kv[r];
  const int64_t first = range.begin / kv;
  const int64_t tiles = CeilDiv(range.end, kv) - first;
  int64_t keys = chunk;
  if (policy.batch_invariant && role == Role::kDecode) {
    keys = CeilDiv(CeilDiv(s.k_len, kv), kInvariantMaxSplits) * kv;
    if (keys < kInvariantChunk) keys = kInvariantChunk;
  }
  if (tiles <= 1 || keys >= tiles * kv) {
    return {1, static_cast<int32_t>(first), static_cast<int32_t>(tiles)};
  }
  const int64_t splits = CeilDiv(tiles * kv, keys);
  const int64_t per = CeilDiv(tiles, splits);
  return {static_cast<int32_t>(CeilDiv(tiles, per)),
          static_cast<int32_t>(first), static_cast<int32_t>(per)};
}

ATTENTION_HOST_DEVICE KvRange SplitRange(const SchedulePolicy& policy,
                                         Role role, KvRange range,
                                         const SplitPlan& plan, int32_t split) {
  if (plan.num_splits == 1) return range;
  const int64_t kv = policy.kv[static_cast<int>(role)];
  const int64_t begin =
      (plan.first_tile + int64_t{split} * plan.tiles_a_split) * kv;
  const int64_t end = begin + plan.tiles_a_split * kv;
  return {static_cast<int32_t>(begin < range.begin ? range.begin : begin),
          static_cast<int32_t>(end > range.end ? range.end : end)};
}

// Decode items come by length, in as many classes of a chunk's quarters: the
// longest first, so that no thread block begins a long one when the others are
// done (Graham 1969, longest processing time first).
inline constexpr int kItemClasses = 4;

// Of items of so many keys where the longest have a chunk; 0: the longest.
ATTENTION_HOST_DEVICE int32_t ItemClass(int64_t keys, int32_t chunk) {
  if (chunk == kNoSplit) return 0;
  const int64_t quarters = CeilDiv(keys * kItemClasses, chunk);
  return static_cast<int32_t>(
      Clamp(kItemClasses - quarters, 0, kItemClasses - 1));
}

// What a sequence adds to the lists.
struct SequenceCounts {
  int64_t items[kNumRoles] = {0, 0};
  int32_t item_class = 0;  // of its decode items
  int64_t longest = 0;     // keys of the longest of these, whole kv tiles
  int64_t combines = 0;
  int64_t partial_rows = 0;
};

ATTENTION_HOST_DEVICE bool MaySplit(const SchedulePolicy& policy, Role role,
                                    int32_t chunk) {
  return policy.batch_invariant ? role == Role::kDecode : chunk != kNoSplit;
}

// Rows of row tile `tile`.
ATTENTION_HOST_DEVICE int32_t TileRowCount(const SchedulePolicy& policy,
                                           const SequenceInfo& s, Role role,
                                           int32_t tile) {
  const int64_t rows = policy.rows[static_cast<int>(role)];
  return static_cast<int32_t>(
      Clamp(PackedRows(policy, s) - tile * rows, 0, rows));
}

ATTENTION_HOST_DEVICE SequenceCounts
CountSequence(const SchedulePolicy& policy, const SequenceInfo& s,
              const int32_t chunk[kNumRoles]) {
  SequenceCounts counts;
  const Role role = RoleOf(policy, s);
  const int r = static_cast<int>(role);
  const int32_t tiles = RowTiles(policy, s, role);
  if (!MaySplit(policy, role, chunk[r])) {
    counts.items[r] = int64_t{tiles} * policy.num_kv_heads;
    return counts;
  }
  for (int32_t tile = 0; tile < tiles; ++tile) {
    const int32_t rows = TileRowCount(policy, s, role, tile);
    const KvRange range = TileKvRange(policy, s, tile * policy.rows[r], rows);
    const SplitPlan plan = PlanSplits(policy, s, role, chunk[r], range);
    const int32_t n = plan.num_splits;
    counts.items[r] += n;
    if (role == Role::kDecode) {
      // Decodes have one tile.
      counts.longest = int64_t{plan.tiles_a_split} * policy.kv[r];
      counts.item_class = ItemClass(counts.longest, chunk[r]);
    }
    if (n > 1) {
      counts.combines += 1;
      counts.partial_rows += int64_t{n} * rows;
    }
  }
  counts.items[r] *= policy.num_kv_heads;
  counts.combines *= policy.num_kv_heads;
  counts.partial_rows *= policy.num_kv_heads;
  return counts;
}

// Item `local` of a sequence whose lists start at the given places.
// `combine_index` is where *combine goes, or -1 when this item emits none (the
// first split of a tile emits it).
struct ItemPlace {
  int64_t combine_begin = 0;
  int64_t partial_begin = 0;
};

ATTENTION_HOST_DEVICE WorkItem FindItem(const SchedulePolicy& policy,
                                        const SequenceInfo& s, int32_t batch,
                                        const int32_t chunk[kNumRoles],
                                        int64_t local, const ItemPlace& place,
                                        CombineItem* combine,
                                        int64_t* combine_index) {
  const Role role = RoleOf(policy, s);
  const int r = static_cast<int>(role);
  const int32_t tiles = RowTiles(policy, s, role);
  *combine_index = -1;
  WorkItem item;
  item.batch = batch;
  item.partial_row = -1;
  item.split = 0;
  if (!MaySplit(policy, role, chunk[r])) {
    // Heads outermost, so that blocks that run together share K and V in L2;
    // the longest causal tiles first.
    item.kv_head = static_cast<int32_t>(local / tiles);
    const int32_t tile = tiles - 1 - static_cast<int32_t>(local % tiles);
    item.row_begin = tile * policy.rows[r];
    item.row_count = TileRowCount(policy, s, role, tile);
    const KvRange range =
        TileKvRange(policy, s, item.row_begin, item.row_count);
    item.kv_begin = range.begin;
    item.kv_end = range.end;
    return item;
  }
  int64_t items = 0;
  int64_t combines = 0;
  int64_t partial_rows = 0;
  for (int pass = 0; pass < 2; ++pass) {
    int64_t head = 0;
    int64_t rest = 0;
    if (pass == 1) {
      head = local / items;
      rest = local % items;
    }
    int64_t combines_before = 0;
    int64_t rows_before = 0;
    for (int32_t tile = tiles - 1; tile >= 0; --tile) {
      const int32_t rows = TileRowCount(policy, s, role, tile);
      const int32_t row_begin = tile * policy.rows[r];
      const KvRange range = TileKvRange(policy, s, row_begin, rows);
      const SplitPlan plan = PlanSplits(policy, s, role, chunk[r], range);
      if (pass == 1 && rest < plan.num_splits) {
        item.kv_head = static_cast<int32_t>(head);
        item.row_begin = row_begin;
        item.row_count = rows;
        item.split = static_cast<int32_t>(rest);
        const KvRange part = SplitRange(policy, role, range, plan, item.split);
        item.kv_begin = part.begin;
        item.kv_end = part.end;
        if (plan.num_splits > 1) {
          const int64_t first =
              place.partial_begin + head * partial_rows + rows_before;
          item.partial_row = static_cast<int32_t>(first + rest * rows);
          if (rest == 0) {
            *combine = {batch,
                        item.kv_head,
                        row_begin,
                        rows,
                        static_cast<int32_t>(first),
                        plan.num_splits,
                        {0, 0}};
            *combine_index =
                place.combine_begin + head * combines + combines_before;
          }
        }
        return item;
      }
      if (pass == 1) rest -= plan.num_splits;
      items += pass == 0 ? plan.num_splits : 0;
      if (plan.num_splits > 1) {
        combines_before += 1;
        rows_before += int64_t{plan.num_splits} * rows;
      }
    }
    if (pass == 0) {
      combines = combines_before;
      partial_rows = rows_before;
    }
  }
  return item;  // not reached: local is below the sequence's count
}

// A sequence's share of the sums that chunks follow from; the keys are an upper
// estimate (causal tiles count in full), which keeps the bounds.
ATTENTION_HOST_DEVICE int64_t TilesOf(const SchedulePolicy& policy,
                                      const SequenceInfo& s) {
  return int64_t{RowTiles(policy, s, RoleOf(policy, s))} * policy.num_kv_heads;
}
ATTENTION_HOST_DEVICE int64_t WorkOf(const SchedulePolicy& policy,
                                     const SequenceInfo& s) {
  const int kv = policy.kv[static_cast<int>(RoleOf(policy, s))];
  int64_t keys = CeilDiv(s.k_len, kv) * kv;
  if (policy.window_left >= 0 && policy.window_right >= 0) {
    const int64_t rows = policy.rows[static_cast<int>(RoleOf(policy, s))];
    const int64_t most = int64_t{policy.window_left} + policy.window_right +
                         CeilDiv(rows, policy.group_size) + 1 + 2 * kv;
    if (keys > most) keys = most;
  }
  return TilesOf(policy, s) * keys;
}

// What decodes are cut into with one of the chunks.
struct DecodeCuts {
  int64_t items = 0;    // that read keys
  int32_t longest = 0;  // keys of the longest item, whole kv tiles
};

// Of one sequence.  REQUIRES: decodes are split by counting.
ATTENTION_HOST_DEVICE DecodeCuts CutsOf(const SchedulePolicy& policy,
                                        const SequenceInfo& s, int32_t chunk) {
  // An empty sequence, such as a padding row of a captured graph, has an item
  // that writes zeros, in no time.
  if (RoleOf(policy, s) != Role::kDecode || s.k_len == 0) return {};
  const int32_t chunks[kNumRoles] = {kNoSplit, chunk};
  const SequenceCounts counts = CountSequence(policy, s, chunks);
  return {counts.items[static_cast<int>(Role::kDecode)],
          static_cast<int32_t>(counts.longest)};
}

// How long decodes take that are cut so, in keys that a thread block reads:
// rounds of the resident thread blocks, of items of average length, or the
// longest item.
ATTENTION_HOST_DEVICE int64_t CostOf(const SchedulePolicy& policy,
                                     const DecodeCuts& cuts, int64_t work) {
  if (cuts.items == 0) return 0;
  const int64_t resident = policy.resident[static_cast<int>(Role::kDecode)];
  const int64_t rounds = CeilDiv(cuts.items, resident) *
                         (CeilDiv(work, cuts.items) + kCountedOverheadKeys);
  const int64_t longest = int64_t{cuts.longest} + kCountedOverheadKeys;
  return rounds > longest ? rounds : longest;
}

// The chunk that ends first, given what the batch's decodes are cut into with
// each; the shortest of equals, by whose quarters items are told apart best.
ATTENTION_HOST_DEVICE int32_t
BestDecodeChunk(const SchedulePolicy& policy,
                const DecodeCuts cuts[kDecodeChunks], int64_t work) {
  int best = 0;
  int64_t best_cost = CostOf(policy, cuts[0], work);
  for (int i = 1; i < kDecodeChunks; ++i) {
    const int64_t cost = CostOf(policy, cuts[i], work);
    if (cost < best_cost) {
      best = i;
      best_cost = cost;
    }
  }
  return DecodeChunkKeys(policy, best, work);
}

// Sizes of the lists that hold for any lengths.
struct ScheduleBounds {
  int64_t max_items[kNumRoles] = {0, 0};
  int64_t max_combines = 0;
  int64_t max_partial_rows = 0;
};

ScheduleBounds BoundsOf(const SchedulePolicy& policy, int32_t max_batch,
                        int64_t max_total_q);

// The schedule as the kernel builds it, on the host.
struct HostSchedule {
  ScheduleHeader header = {};
  std::vector<SequenceInfo> sequences;
  std::vector<WorkItem> items[kNumRoles];
  std::vector<CombineItem> combines;
  std::vector<int32_t> token_sequence;
  int64_t partial_rows = 0;
};

HostSchedule BuildSchedule(const SchedulePolicy& policy, const RawLengths& raw);

}  // namespace interleave::attention

#endif  // ATTENTION_TILE_SCHEDULE_H_
