#include "sim/profiling/random_batches.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

TEST(UnevenLengthsTest, WithinBounds) {
  Rng rng(7);
  std::vector<int32_t> lengths = UnevenLengths(rng, 1000, 800, 1, 4096);
  ASSERT_EQ(lengths.size(), 1000u);
  // Servers have their sequences in no order of length.
  EXPECT_FALSE(std::is_sorted(lengths.begin(), lengths.end()));
  std::sort(lengths.begin(), lengths.end());
  EXPECT_GE(lengths.front(), 1);
  EXPECT_EQ(lengths.back(), 4096);
  // The median of a lognormal law, within four standard errors.
  EXPECT_NEAR(lengths[500], 800, 800 * 4 * 1.2533 / 31.6);
}

TEST(TypicalLengthsTest, MeanAndSpread) {
  const std::vector<int32_t> lengths = TypicalLengths(256, 1000);
  ASSERT_EQ(lengths.size(), 256u);
  double sum = 0;
  double squares = 0;
  for (const double length : lengths) {
    sum += length;
    squares += length * length;
  }
  const double mean = sum / 256;
  EXPECT_NEAR(mean, 1000, 0.5);
  // The coefficient of variation of the law is 0.53.
  EXPECT_NEAR(std::sqrt(squares / 256 - mean * mean) / mean, 0.53, 0.1);
  EXPECT_LE(*std::max_element(lengths.begin(), lengths.end()), 4000);
  EXPECT_EQ(lengths, TypicalLengths(256, 1000));
  const std::vector<int32_t> others = TypicalLengths(256, 1000, 1);
  EXPECT_NE(lengths, others);
  EXPECT_NEAR(std::accumulate(others.begin(), others.end(), 0.0) / 256, 1000,
              0.5);
  EXPECT_EQ(TypicalLengths(1, 700), std::vector<int32_t>{700});
  for (const int32_t length : TypicalLengths(64, 1)) EXPECT_GE(length, 1);
}

TEST(RandomBatchTest, KeepsLimitsAndMixesKinds) {
  Rng rng(1);
  BatchLimits limits;
  int decodes_alone = 0;
  int prompts_alone = 0;
  int several_beside_decodes = 0;
  for (int i = 0; i < 2000; ++i) {
    const MeasuredBatch batch = RandomBatch(rng, limits);
    ASSERT_GE(batch.num_tokens(), 1);
    ASSERT_LE(batch.num_tokens(), limits.max_tokens);
    ASSERT_LE(batch.num_sequences(), limits.max_sequences);
    for (const PrefillChunk& chunk : batch.chunks) {
      ASSERT_GE(chunk.query_tokens, 2);
      ASSERT_LE(chunk.context_tokens, limits.max_context);
    }
    for (const int32_t kv : batch.decode_kv) ASSERT_LE(kv, limits.max_kv);
    if (batch.chunks.empty()) ++decodes_alone;
    if (batch.decode_kv.empty()) ++prompts_alone;
    if (batch.chunks.size() > 1 && !batch.decode_kv.empty()) {
      ++several_beside_decodes;
    }
  }
  // One in five each.
  EXPECT_NEAR(decodes_alone, 400, 80);
  EXPECT_NEAR(prompts_alone, 400, 80);
  EXPECT_GT(several_beside_decodes, 200);
}

}  // namespace
}  // namespace interleave::sim
