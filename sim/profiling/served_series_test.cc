#include "sim/profiling/served_series.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "gtest/gtest.h"
#include "sim/cost/batch_shape.h"
#include "sim/profiling/measured_batch.h"
#include "sim/profiling/random_batches.h"

namespace interleave::sim {
namespace {

TEST(ServedSeriesTest, KeepsLimitsAndIsNeverEmpty) {
  for (const BatchLimits& limits : std::vector<BatchLimits>{
           {2048, 8192, 256, 8192}, {64, 100, 16, 80}, {3, 3, 1, 3}}) {
    ServedSeries series(Rng(5), limits);
    for (int i = 0; i < 3000; ++i) {
      const MeasuredBatch batch = series.Next();
      ASSERT_GE(batch.num_tokens(), 1);
      ASSERT_LE(batch.num_tokens(), limits.max_tokens);
      ASSERT_LE(batch.num_sequences(), limits.max_sequences);
      for (const PrefillChunk& chunk : batch.chunks) {
        ASSERT_GE(chunk.query_tokens, 2);
        ASSERT_LE(chunk.context_tokens + chunk.query_tokens,
                  limits.max_context);
      }
      for (const int32_t kv : batch.decode_kv) {
        ASSERT_GE(kv, 2);
        ASSERT_LE(kv, limits.max_kv);
      }
    }
  }
}

// While the load is the same, decodes keep their order, and each has a token
// more than in the batch of decodes before, or has ended.
TEST(ServedSeriesTest, SequencesGrowByATokenABatch) {
  ServedSeries series(Rng(9), BatchLimits());
  std::vector<int32_t> before;
  int grown = 0;
  int ended = 0;
  for (int i = 0; i < 3000; ++i) {
    const MeasuredBatch batch = series.Next();
    if (i % ServedSeries::kSameLoad == 0) before.clear();
    if (batch.decode_kv.empty()) continue;
    size_t at = 0;
    for (const int32_t kv : before) {
      if (at < batch.decode_kv.size() && batch.decode_kv[at] == kv + 1) {
        ++at;
        ++grown;
      } else {
        ++ended;
      }
    }
    before = batch.decode_kv;
  }
  EXPECT_GT(grown, 50'000);
  EXPECT_LT(ended, grown / 40);
}

TEST(ServedSeriesTest, ChunksContinueWhereTheyStopped) {
  ServedSeries series(Rng(3), BatchLimits());
  int32_t begun = 0;  // tokens of the prompt that the last batch cut, or 0
  int continued = 0;
  for (int i = 0; i < 7000; ++i) {
    const MeasuredBatch batch = series.Next();
    if (i % ServedSeries::kSameLoad == 0) begun = 0;
    if (batch.chunks.empty()) continue;
    const PrefillChunk& first = batch.chunks.front();
    // Either the prompt that was cut, or one that was not begun.
    if (first.context_tokens > 0) {
      EXPECT_EQ(first.context_tokens, begun);
      ++continued;
    }
    for (size_t c = 1; c < batch.chunks.size(); ++c) {
      EXPECT_EQ(batch.chunks[c].context_tokens, 0);
    }
    const PrefillChunk& last = batch.chunks.back();
    begun = last.context_tokens + last.query_tokens;
  }
  EXPECT_GT(continued, 200);
}

TEST(ServedSeriesTest, HasEveryKindOfBatch) {
  ServedSeries series(Rng(1), BatchLimits());
  int decodes_alone = 0;
  int many_decodes_alone = 0;
  int prompts_alone = 0;
  std::map<int64_t, int> mixed_by_tokens;
  for (int i = 0; i < 7000; ++i) {
    const MeasuredBatch batch = series.Next();
    if (batch.chunks.empty()) {
      ++decodes_alone;
      if (batch.decode_kv.size() > 64) ++many_decodes_alone;
    } else if (batch.decode_kv.empty()) {
      ++prompts_alone;
    } else {
      ++mixed_by_tokens[batch.num_tokens()];
    }
  }
  EXPECT_GT(decodes_alone, 2500);
  EXPECT_GT(many_decodes_alone, 250);
  EXPECT_GT(prompts_alone, 100);
  int full = 0;
  for (const int64_t budget : {512, 1024, 2048}) {
    EXPECT_GT(mixed_by_tokens[budget], 50) << budget;
    full += mixed_by_tokens[budget];
  }
  int mixed = 0;
  for (const auto& [tokens, count] : mixed_by_tokens) mixed += count;
  // Where prompts do not queue, the last piece of one is a batch's only one.
  EXPECT_GT(mixed - full, 150);
}

}  // namespace
}  // namespace interleave::sim
