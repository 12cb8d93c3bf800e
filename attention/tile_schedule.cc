#include "attention/tile_schedule.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace interleave::attention {
namespace {

constexpr int kP = static_cast<int>(Role::kPrefill);
constexpr int kD = static_cast<int>(Role::kDecode);

// Rows that sequences of the decode role can have together, over all KV heads.
int64_t MaxDecodeRows(const SchedulePolicy& policy, int32_t max_batch,
                      int64_t max_total_q) {
  const int64_t rows = policy.rows[kD];
  return policy.num_kv_heads *
         std::min(int64_t{max_batch} * rows, max_total_q * policy.group_size);
}

int32_t CountedChunkKeys(const SchedulePolicy& policy,
                         const std::vector<SequenceInfo>& sequences,
                         int64_t work) {
  DecodeCuts cuts[kDecodeChunks];
  for (int i = 0; i < kDecodeChunks; ++i) {
    const int32_t chunk = DecodeChunkKeys(policy, i, work);
    for (const SequenceInfo& s : sequences) {
      const DecodeCuts own = CutsOf(policy, s, chunk);
      cuts[i].items += own.items;
      cuts[i].longest = std::max(cuts[i].longest, own.longest);
    }
  }
  return BestDecodeChunk(policy, cuts, work);
}

}  // namespace

ScheduleBounds BoundsOf(const SchedulePolicy& policy, int32_t max_batch,
                        int64_t max_total_q) {
  const int64_t heads = policy.num_kv_heads;
  const int64_t packed = max_total_q * policy.group_size;
  // A sequence has at most one tile that is not full.
  const int64_t prefill_sequences =
      std::min<int64_t>(max_batch, packed / (policy.rows[kD] + 1));
  const int64_t prefill_tiles =
      prefill_sequences == 0
          ? 0
          : heads * (packed / policy.rows[kP] + prefill_sequences);
  const bool decode_fits = policy.group_size <= policy.rows[kD];
  const int64_t decode_tiles =
      decode_fits ? heads * std::min<int64_t>(max_batch, max_total_q) : 0;

  ScheduleBounds bounds;
  bounds.max_items[kP] = prefill_tiles;
  bounds.max_items[kD] = decode_tiles;
  if (policy.batch_invariant) {
    const int64_t splits = kInvariantMaxSplits;
    bounds.max_items[kD] *= splits;
    bounds.max_combines = decode_tiles;
    bounds.max_partial_rows =
        decode_fits ? splits * MaxDecodeRows(policy, max_batch, max_total_q)
                    : 0;
    return bounds;
  }
  // With chunks of at least work / target keys, tiles that are split make at
  // most 2 * target splits, and those are at most target tiles.
  if (prefill_tiles > 0) {
    const int64_t target = int64_t{kPrefillMaxWaves} * policy.resident[kP];
    bounds.max_items[kP] += 2 * target;
    bounds.max_combines += std::min(target, prefill_tiles);
    bounds.max_partial_rows += 2 * target * policy.rows[kP];
  }
  if (decode_tiles > 0) {
    const int64_t target =
        std::max<int64_t>(kMaxDecodeSplits, policy.resident[kD]);
    bounds.max_items[kD] += 2 * target;
    bounds.max_combines += std::min(target, decode_tiles);
    bounds.max_partial_rows += 2 * target * policy.rows[kD];
  }
  return bounds;
}

HostSchedule BuildSchedule(const SchedulePolicy& policy,
                           const RawLengths& raw) {
  HostSchedule schedule;
  int64_t tiles[kNumRoles] = {0, 0};
  int64_t work[kNumRoles] = {0, 0};
  for (int32_t b = 0; b < raw.batch; ++b) {
    schedule.sequences.push_back(ReadSequence(raw, b));
    const SequenceInfo& s = schedule.sequences.back();
    const int r = static_cast<int>(RoleOf(policy, s));
    tiles[r] += TilesOf(policy, s);
    work[r] += WorkOf(policy, s);
  }
  schedule.header.chunk[kP] =
      EqualChunkKeys(policy, Role::kPrefill, tiles[kP], work[kP]);
  schedule.header.chunk[kD] =
      CountsDecodeCuts(policy, work[kD])
          ? CountedChunkKeys(policy, schedule.sequences, work[kD])
          : EqualChunkKeys(policy, Role::kDecode, tiles[kD], work[kD]);
  schedule.token_sequence.assign(raw.append ? raw.total_new : 0, -1);
  std::vector<SequenceCounts> counts;
  std::vector<ItemPlace> places;
  ItemPlace place;
  for (int32_t b = 0; b < raw.batch; ++b) {
    const SequenceInfo& s = schedule.sequences[b];
    counts.push_back(CountSequence(policy, s, schedule.header.chunk));
    places.push_back(place);
    place.combine_begin += counts.back().combines;
    place.partial_begin += counts.back().partial_rows;
    for (int32_t t = 0; t < s.new_len; ++t) {
      schedule.token_sequence[s.new_begin + t] = b;
    }
  }
  schedule.combines.resize(place.combine_begin);
  const auto add = [&](int r, int32_t b) {
    for (int64_t local = 0; local < counts[b].items[r]; ++local) {
      CombineItem combine;
      int64_t index;
      schedule.items[r].push_back(FindItem(policy, schedule.sequences[b], b,
                                           schedule.header.chunk, local,
                                           places[b], &combine, &index));
      if (index >= 0) schedule.combines[index] = combine;
    }
  };
  for (int32_t b = 0; b < raw.batch; ++b) add(kP, b);
  for (int k = 0; k < kItemClasses; ++k) {
    for (int32_t b = 0; b < raw.batch; ++b) {
      if (counts[b].item_class == k) add(kD, b);
    }
  }
  for (int r = 0; r < kNumRoles; ++r) {
    schedule.header.num_items[r] =
        static_cast<int32_t>(schedule.items[r].size());
  }
  schedule.header.num_combines = static_cast<int32_t>(schedule.combines.size());
  schedule.header.num_new_tokens =
      static_cast<int32_t>(schedule.token_sequence.size());
  schedule.partial_rows = place.partial_begin;
  return schedule;
}

}  // namespace interleave::attention
