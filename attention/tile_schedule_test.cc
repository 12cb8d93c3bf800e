#include "attention/tile_schedule.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "attention/kernel_params.h"
#include "attention/random_batch_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::attention {
namespace {

using ::testing::ElementsAre;

constexpr int kP = static_cast<int>(Role::kPrefill);
constexpr int kD = static_cast<int>(Role::kDecode);

TEST(FastDivisorTest, DividesLikeTheMachine) {
  std::mt19937 random(1);
  for (uint32_t d :
       {1u, 2u, 3u, 5u, 7u, 16u, 48u, 71u, 480u, 1024u, 2147483647u}) {
    const FastDivisor divisor(d);
    for (uint32_t n : {0u, 1u, d - 1, d, d + 1, 2147483647u}) {
      if (n > 2147483647u) continue;
      EXPECT_EQ(divisor.Divide(n), n / d) << n << "/" << d;
    }
    for (int i = 0; i < 1000; ++i) {
      const uint32_t n = random() >> 1;
      ASSERT_EQ(divisor.Divide(n), n / d) << n << "/" << d;
    }
  }
}

// The founding document's first example, as offsets.
TEST(ReadSequenceTest, GoldenExample1) {
  const std::vector<int32_t> cu_q = {0, 10, 13, 14};
  const std::vector<int32_t> cu_k = {0, 0, 1, 8};
  RawLengths raw;
  raw.batch = 3;
  raw.total_q = 14;
  raw.cu_seqlens_q = cu_q.data();
  raw.cu_seqlens_k = cu_k.data();
  raw.max_seqlen_k = 8;
  const SequenceInfo r0 = ReadSequence(raw, 0);
  EXPECT_EQ(r0.q_len, 10);
  EXPECT_EQ(r0.k_len, 0);
  const SequenceInfo r1 = ReadSequence(raw, 1);
  EXPECT_EQ(r1.q_begin, 10);
  EXPECT_EQ(r1.q_len, 3);
  EXPECT_EQ(r1.k_len, 1);
  const SequenceInfo r2 = ReadSequence(raw, 2);
  EXPECT_EQ(r2.q_begin, 13);
  EXPECT_EQ(r2.k_begin, 1);
  EXPECT_EQ(r2.k_len, 7);
}

// The second example: positions of the appended tokens.
TEST(ReadSequenceTest, GoldenExample2) {
  const std::vector<int32_t> cache = {30, 32, 70};
  RawLengths raw;
  raw.batch = 3;
  raw.total_q = 3;
  raw.cache_seqlens = cache.data();
  raw.append = true;
  raw.total_new = 3;
  raw.max_seqlen_k = 128;
  for (int b = 0; b < 3; ++b) {
    const SequenceInfo s = ReadSequence(raw, b);
    EXPECT_EQ(s.q_begin, b);
    EXPECT_EQ(s.q_len, 1);
    EXPECT_EQ(s.new_begin, b);
    EXPECT_EQ(s.new_len, 1);
    EXPECT_EQ(s.append_pos, cache[b]);
    EXPECT_EQ(s.k_len, cache[b] + 1);
  }
}

TEST(ReadSequenceTest, PaddingRowsAreEmpty) {
  const int32_t cache = -1;
  RawLengths raw;
  raw.batch = 1;
  raw.total_q = 1;
  raw.cache_seqlens = &cache;
  raw.append = true;
  raw.total_new = 1;
  raw.max_seqlen_k = 128;
  const SequenceInfo s = ReadSequence(raw, 0);
  EXPECT_EQ(s.q_len, 1);
  EXPECT_EQ(s.k_len, 0);
  EXPECT_EQ(s.new_len, 0);
}

// Offsets of new tokens stay monotonic across padding rows.
TEST(ReadSequenceTest, PaddingRowsKeepTheirPlaceAmongNewTokens) {
  const std::vector<int32_t> cache = {4, -1, 6};
  const std::vector<int32_t> cu_new = {0, 5, 7, 9};
  RawLengths raw;
  raw.batch = 3;
  raw.total_q = 3;
  raw.cache_seqlens = cache.data();
  raw.append = true;
  raw.cu_seqlens_new = cu_new.data();
  raw.total_new = 9;
  raw.max_seqlen_k = 128;
  EXPECT_EQ(ReadSequence(raw, 1).new_begin, 5);
  EXPECT_EQ(ReadSequence(raw, 1).new_len, 0);
  EXPECT_EQ(ReadSequence(raw, 2).new_begin, 7);
  EXPECT_EQ(ReadSequence(raw, 2).new_len, 2);
  EXPECT_THAT(BuildSchedule(SchedulePolicy(), raw).token_sequence,
              ElementsAre(0, 0, 0, 0, 0, -1, -1, 2, 2));
}

TEST(ReadSequenceTest, ClipsWhatLeavesTheTensors) {
  const std::vector<int32_t> cu_q = {0, 5, 2, 100};
  const std::vector<int32_t> cache = {1000, 5, 127};
  RawLengths raw;
  raw.batch = 3;
  raw.total_q = 10;
  raw.cu_seqlens_q = cu_q.data();
  raw.cache_seqlens = cache.data();
  raw.append = true;
  raw.total_new = 10;
  raw.max_seqlen_k = 128;
  EXPECT_EQ(ReadSequence(raw, 0).k_len, 128);
  EXPECT_EQ(ReadSequence(raw, 0).new_len, 0);
  EXPECT_EQ(ReadSequence(raw, 1).q_len, 0);
  EXPECT_EQ(ReadSequence(raw, 2).q_len, 8);
  EXPECT_EQ(ReadSequence(raw, 2).new_len, 1);
}

TEST(TileKvRangeTest, CausalAndWindow) {
  SchedulePolicy policy;
  policy.group_size = 4;
  SequenceInfo s = {};
  s.q_len = 8;
  s.k_len = 108;
  // Rows 8..15 are tokens 2 and 3, at positions 102 and 103.
  EXPECT_EQ(TileKvRange(policy, s, 8, 8).end, 108);
  policy.window_right = 0;
  EXPECT_EQ(TileKvRange(policy, s, 8, 8).begin, 0);
  EXPECT_EQ(TileKvRange(policy, s, 8, 8).end, 104);
  policy.window_left = 10;
  EXPECT_EQ(TileKvRange(policy, s, 8, 8).begin, 92);
  policy.window_left = 0;
  EXPECT_EQ(TileKvRange(policy, s, 8, 8).begin, 102);
  // More queries than keys: the first rows see nothing.
  s.k_len = 3;
  EXPECT_EQ(TileKvRange(policy, s, 0, 8).begin, 0);
  EXPECT_EQ(TileKvRange(policy, s, 0, 8).end, 0);
}

TEST(BuildScheduleTest, RolesAreChosenBySequence) {
  const std::vector<int32_t> cu_q = {0, 100, 101, 101, 105};
  const std::vector<int32_t> cache = {0, 100, 3, 8};
  SchedulePolicy policy;
  policy.num_kv_heads = 2;
  policy.group_size = 4;
  policy.window_right = 0;
  RawLengths raw;
  raw.batch = 4;
  raw.total_q = 105;
  raw.cu_seqlens_q = cu_q.data();
  raw.cache_seqlens = cache.data();
  raw.append = true;
  raw.total_new = 105;
  raw.max_seqlen_k = 4096;
  const HostSchedule schedule = BuildSchedule(policy, raw);
  EXPECT_EQ(schedule.items[kP].size(), 2u * 7);  // 400 rows in tiles of 64
  EXPECT_EQ(schedule.items[kD].size(), 2u * 2);
  // Longest causal tile first.
  EXPECT_EQ(schedule.items[kP][0].row_begin, 384);
  EXPECT_EQ(schedule.items[kP][0].kv_end, 100);
}

// Of one token a sequence, with so many in the cache.
HostSchedule DecodesOn(const SchedulePolicy& policy,
                       const std::vector<int32_t>& cache) {
  RawLengths raw;
  raw.batch = static_cast<int32_t>(cache.size());
  raw.total_q = raw.batch;
  raw.cache_seqlens = cache.data();
  raw.max_seqlen_k = 1 << 20;
  return BuildSchedule(policy, raw);
}

TEST(BuildScheduleTest, LongestDecodeItemsFirst) {
  SchedulePolicy policy;
  policy.num_kv_heads = 2;
  policy.group_size = 4;
  policy.resident[kD] = 8;
  const HostSchedule schedule =
      DecodesOn(policy, {1024, 100, 640, 1920, 320, 2048});
  const int32_t chunk = schedule.header.chunk[kD];
  std::vector<int32_t> order;
  int32_t shortest = chunk;
  for (const WorkItem& item : schedule.items[kD]) {
    if (order.empty() || order.back() != item.batch) {
      order.push_back(item.batch);
    }
    // By quarters of a chunk; in a class as the sequences come.
    const int32_t keys = item.kv_end - item.kv_begin;
    EXPECT_LE(keys, shortest + chunk / kItemClasses);
    shortest = std::min(shortest, keys);
  }
  // Every sequence once.
  std::vector<int32_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_THAT(sorted, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(order.back(), 1);
}

TEST(ItemClassTest, QuartersOfAChunk) {
  EXPECT_EQ(ItemClass(1024, 1024), 0);
  EXPECT_EQ(ItemClass(769, 1024), 0);
  EXPECT_EQ(ItemClass(768, 1024), 1);
  EXPECT_EQ(ItemClass(512, 1024), 2);
  EXPECT_EQ(ItemClass(256, 1024), 3);
  EXPECT_EQ(ItemClass(0, 1024), 3);
  EXPECT_EQ(ItemClass(100, kNoSplit), 0);
}

TEST(BuildScheduleTest, CutsAnEvenlyLongDecode) {
  const int32_t cache = 8191;
  SchedulePolicy policy;
  policy.group_size = 4;
  policy.resident[kD] = 4;
  RawLengths raw;
  raw.batch = 1;
  raw.total_q = 1;
  raw.cache_seqlens = &cache;
  raw.append = true;
  raw.total_new = 1;
  raw.max_seqlen_k = 8192;
  const HostSchedule schedule = BuildSchedule(policy, raw);
  ASSERT_EQ(schedule.items[kD].size(), 4u);
  for (int s = 0; s < 4; ++s) {
    EXPECT_EQ(schedule.items[kD][s].kv_begin, 2048 * s);
    EXPECT_EQ(schedule.items[kD][s].kv_end, 2048 * (s + 1));
    EXPECT_EQ(schedule.items[kD][s].partial_row, 4 * s);
  }
  ASSERT_EQ(schedule.combines.size(), 1u);
  EXPECT_EQ(schedule.combines[0].num_splits, 4);
  EXPECT_EQ(schedule.combines[0].row_count, 4);
  EXPECT_THAT(schedule.token_sequence, ElementsAre(0));
}

// Splits fill rounds of resident blocks: 384 of 396, and 1,536 of 1,584.
TEST(BuildScheduleTest, SplitsFillRounds) {
  SchedulePolicy policy;
  policy.num_kv_heads = 8;
  policy.group_size = 4;
  policy.resident[kD] = 396;
  for (const auto& [batch, splits] :
       std::vector<std::pair<int, int>>{{16, 3}, {64, 3}}) {
    EXPECT_EQ(
        DecodesOn(policy, std::vector<int32_t>(batch, 8192)).items[kD].size(),
        static_cast<size_t>(8 * batch * splits));
  }
}

// Decodes of such lengths on `resident` thread blocks, tiles of 64 keys.
HostSchedule DecodesOn(int32_t resident, const std::vector<int32_t>& lengths) {
  SchedulePolicy policy;
  policy.group_size = 4;
  policy.resident[kD] = resident;
  return DecodesOn(policy, lengths);
}

// Of 2,112 keys on four thread blocks: whole, two rounds of 423 on average and
// 256 of overhead; halves, three of 235.
TEST(BuildScheduleTest, DecodesAreSplitOnlyWhereRoundsGetShorter) {
  EXPECT_EQ(DecodesOn(4, {512, 512, 512, 512, 64}).items[kD].size(), 5u);
  // Three take a round of 512 and 256 of overhead; their halves, two of 256 and
  // as much overhead.
  EXPECT_EQ(DecodesOn(4, {512, 512, 512}).items[kD].size(), 3u);
  // A long one beside short ones is cut.
  EXPECT_GT(DecodesOn(4, {8192, 64, 64}).items[kD].size(), 5u);
}

// On four thread blocks. With 1,120 keys a block, what is counted: halves take
// three rounds of 448 and 256 of overhead, thirds four of 299. With 1,280,
// tiles as of equal length with half that overhead: four rounds of 342 and 128
// beat three of 512.
TEST(BuildScheduleTest, CountsCutsOnlyWhereAThreadBlockHasLittleToRead) {
  EXPECT_EQ(DecodesOn(4, std::vector<int32_t>(5, 896)).items[kD].size(), 10u);
  EXPECT_EQ(DecodesOn(4, std::vector<int32_t>(5, 1024)).items[kD].size(), 15u);
}

TEST(BuildScheduleTest, PaddingRowsDoNotCount) {
  const std::vector<int32_t> lengths = {1483, 1415, 1408, 1392, 1293,
                                        1387, 1219, 1285, 1127, 1420,
                                        196,  1819, 66};
  std::vector<int32_t> padded = lengths;
  padded.resize(16, -1);
  const HostSchedule alone = DecodesOn(33, lengths);
  const HostSchedule beside = DecodesOn(33, padded);
  EXPECT_EQ(beside.header.chunk[kD], alone.header.chunk[kD]);
  // Each has an item, which writes zeros.
  EXPECT_EQ(beside.items[kD].size(), alone.items[kD].size() + 3);
}

// One prompt chunk on 132 thread blocks: tiles of 32 tokens for each of 8
// heads.
int64_t ChunkItems(int32_t tokens, int32_t cached) {
  SchedulePolicy policy;
  policy.num_kv_heads = 8;
  policy.group_size = 4;
  policy.window_right = 0;
  policy.rows[kP] = 128;
  policy.kv[kP] = 128;
  policy.resident[kP] = 132;
  const std::vector<int32_t> cu_q = {0, tokens};
  RawLengths raw;
  raw.batch = 1;
  raw.total_q = tokens;
  raw.cu_seqlens_q = cu_q.data();
  raw.cache_seqlens = &cached;
  raw.append = true;
  raw.total_new = tokens;
  raw.max_seqlen_k = 1 << 20;
  return BuildSchedule(policy, raw).items[kP].size();
}

// A split that leaves more rounds than it shortens is none.
TEST(BuildScheduleTest, PrefillSplitsOnlyWhereRoundsGetShorter) {
  // 128 tiles fill one round of 132; halves would take two.
  EXPECT_EQ(ChunkItems(512, 8192), 128);
  EXPECT_EQ(ChunkItems(512, 131072), 128);
  // 104 tiles: halves are two rounds as well.
  EXPECT_EQ(ChunkItems(416, 8192), 104);
  // 88 tiles: thirds are 264 items, two rounds of a third each.
  EXPECT_EQ(ChunkItems(352, 8192), 264);
  // 64 tiles: halves fit one round, quarters would be two of a quarter.
  EXPECT_EQ(ChunkItems(256, 8192), 128);
  // 8 tiles of 65 kv tiles: 16 splits would fit the round, and kv tiles come
  // whole, so 13 of 5 each.
  EXPECT_EQ(ChunkItems(32, 8192), 104);
  EXPECT_EQ(ChunkItems(256, 0), 64);
  // Enough tiles for more than a round: none.
  EXPECT_EQ(ChunkItems(1024, 8192), 256);
}

// A long sequence among short ones is cut although there are many tiles.
TEST(BuildScheduleTest, PrefillSplitsALongTileAmongShortOnes) {
  SchedulePolicy policy;
  policy.group_size = 4;
  policy.window_right = 0;
  policy.rows[kP] = 128;
  policy.kv[kP] = 128;
  policy.resident[kP] = 132;
  // 99 chunks of 32 tokens alone, and one behind 131,040 tokens.
  std::vector<int32_t> cu_q = {0};
  for (int b = 0; b < 100; ++b) cu_q.push_back(cu_q.back() + 32);
  std::vector<int32_t> cache(100, 0);
  cache[99] = 131040;
  RawLengths raw;
  raw.batch = 100;
  raw.total_q = 3200;
  raw.cu_seqlens_q = cu_q.data();
  raw.cache_seqlens = cache.data();
  raw.append = true;
  raw.total_new = 3200;
  raw.max_seqlen_k = 1 << 20;
  // 143,744 keys in all, a mean tile of 1,438: splits of 12 kv tiles, so the
  // long tile's 1,024 are cut into 86.
  const HostSchedule schedule = BuildSchedule(policy, raw);
  EXPECT_EQ(schedule.items[kP].size(), 99u + 86u);
}

// Sequences of the random batches.
const std::vector<int32_t> kBatches = {1, 2, 3, 17};

// Every (row, key that the row's tile may see) belongs to exactly one item, and
// partial rows and combines fit together.
TEST(BuildScheduleTest, CoversEachRowAndKeyOnce) {
  std::mt19937 random(20261129);
  for (int round = 0; round < 400; ++round) {
    RandomBatch batch;
    MakeRandomBatch(random, kBatches, &batch);
    const SchedulePolicy& policy = batch.policy;
    const HostSchedule schedule = BuildSchedule(policy, batch.raw);
    std::map<std::tuple<int, int, int>, std::vector<std::pair<int, int>>> parts;
    std::vector<int> partial_users(schedule.partial_rows, 0);
    for (int r = 0; r < kNumRoles; ++r) {
      for (const WorkItem& item : schedule.items[r]) {
        const SequenceInfo& s = schedule.sequences[item.batch];
        ASSERT_EQ(static_cast<int>(RoleOf(policy, s)), r);
        ASSERT_LE(item.row_count, policy.rows[r]);
        ASSERT_EQ(item.row_begin % policy.rows[r], 0);
        parts[{item.batch, item.kv_head, item.row_begin}].push_back(
            {item.kv_begin, item.kv_end});
        if (item.partial_row < 0) continue;
        ASSERT_LT(item.kv_begin, item.kv_end);
        for (int row = 0; row < item.row_count; ++row) {
          ASSERT_LT(item.partial_row + row, schedule.partial_rows);
          ++partial_users[item.partial_row + row];
        }
      }
    }
    for (int users : partial_users) ASSERT_EQ(users, 1);
    size_t tiles = 0;
    size_t split_tiles = 0;
    for (int32_t b = 0; b < batch.raw.batch; ++b) {
      const SequenceInfo& s = schedule.sequences[b];
      const Role role = RoleOf(policy, s);
      for (int head = 0; head < policy.num_kv_heads; ++head) {
        for (int tile = 0; tile < RowTiles(policy, s, role); ++tile, ++tiles) {
          const int row = tile * policy.rows[static_cast<int>(role)];
          const int rows = TileRowCount(policy, s, role, tile);
          const KvRange range = TileKvRange(policy, s, row, rows);
          auto& list = parts[{b, head, row}];
          ASSERT_FALSE(list.empty());
          std::sort(list.begin(), list.end());
          ASSERT_EQ(list.front().first, range.begin);
          ASSERT_EQ(list.back().second, range.end);
          for (size_t i = 1; i < list.size(); ++i) {
            ASSERT_EQ(list[i].first, list[i - 1].second);
            ASSERT_EQ(list[i].first % policy.kv[static_cast<int>(role)], 0);
          }
          split_tiles += list.size() > 1;
        }
      }
    }
    ASSERT_EQ(parts.size(), tiles);
    ASSERT_EQ(schedule.combines.size(), split_tiles);
    for (const CombineItem& combine : schedule.combines) {
      const size_t splits =
          parts[{combine.batch, combine.kv_head, combine.row_begin}].size();
      ASSERT_EQ(splits, static_cast<size_t>(combine.num_splits));
    }
    const ScheduleBounds bounds =
        BoundsOf(policy, batch.raw.batch, batch.raw.total_q);
    for (int r = 0; r < kNumRoles; ++r) {
      ASSERT_LE(schedule.items[r].size(),
                static_cast<size_t>(bounds.max_items[r]));
    }
    ASSERT_LE(schedule.combines.size(),
              static_cast<size_t>(bounds.max_combines));
    ASSERT_LE(schedule.partial_rows, bounds.max_partial_rows);
  }
}

// In batch-invariant mode a sequence is cut the same way alone and in company.
TEST(BuildScheduleTest, BatchInvariantSplitsDependOnTheSequenceAlone) {
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    RandomBatch batch;
    MakeRandomBatch(random, kBatches, &batch);
    batch.policy.batch_invariant = true;
    const HostSchedule whole = BuildSchedule(batch.policy, batch.raw);
    for (int32_t b = 0; b < batch.raw.batch; ++b) {
      const std::vector<int32_t> cu_q = {0, batch.cu_q[b + 1] - batch.cu_q[b]};
      RawLengths raw = batch.raw;
      raw.batch = 1;
      raw.total_q = cu_q[1];
      raw.total_new = cu_q[1];
      raw.cu_seqlens_q = cu_q.data();
      raw.cache_seqlens = &batch.cache[b];
      const HostSchedule alone = BuildSchedule(batch.policy, raw);
      for (int r = 0; r < kNumRoles; ++r) {
        std::vector<WorkItem> company;
        for (const WorkItem& item : whole.items[r]) {
          if (item.batch == b) company.push_back(item);
        }
        ASSERT_EQ(company.size(), alone.items[r].size());
        for (size_t i = 0; i < company.size(); ++i) {
          ASSERT_EQ(company[i].kv_head, alone.items[r][i].kv_head);
          ASSERT_EQ(company[i].row_begin, alone.items[r][i].row_begin);
          ASSERT_EQ(company[i].kv_begin, alone.items[r][i].kv_begin);
          ASSERT_EQ(company[i].kv_end, alone.items[r][i].kv_end);
          ASSERT_EQ(company[i].split, alone.items[r][i].split);
        }
      }
    }
  }
}

TEST(BuildScheduleTest, EmptyBatchHasNoItems) {
  const int32_t zero = 0;
  RawLengths raw;
  raw.cu_seqlens_q = &zero;
  raw.cu_seqlens_k = &zero;
  const HostSchedule schedule = BuildSchedule(SchedulePolicy(), raw);
  EXPECT_EQ(schedule.header.num_items[kP], 0);
  EXPECT_EQ(schedule.header.num_items[kD], 0);
  EXPECT_EQ(schedule.header.num_combines, 0);
}

}  // namespace
}  // namespace interleave::attention
