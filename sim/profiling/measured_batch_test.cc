#include "sim/profiling/measured_batch.h"

#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

TEST(MeasuredBatchTest, KeyNamesEverything) {
  MeasuredBatch batch = Mixed({512, 1024}, 3, 2048);
  EXPECT_EQ(KeyOf(batch), "512@1024|3x2048|all");
  batch.chunks.push_back({16, 0});
  batch.decode_kv.push_back(7);
  batch.part = BatchPart::kWithoutAttention;
  EXPECT_EQ(KeyOf(batch), "512@1024+16@0|3x2048+1x7|linear");
  batch.layers = 2;
  EXPECT_EQ(KeyOf(batch), "512@1024+16@0|3x2048+1x7|linear of 2");
  batch = Decodes(2, 5);
  EXPECT_EQ(KeyOf(batch), "-|2x5|all");
  batch.typical_mean = 5.5;
  batch.part = BatchPart::kAttention;
  EXPECT_EQ(KeyOf(batch), "-|2~5.5|attention");
  EXPECT_EQ(KeyOf(Mixed({4, 0}, 0, 0)), "4@0|-|all");
}

TEST(MeasuredBatchTest, Shape) {
  MeasuredBatch batch = Mixed({512, 1024}, 2, 10);
  batch.decode_kv.push_back(30);
  EXPECT_EQ(batch.num_tokens(), 515);
  EXPECT_EQ(batch.num_sequences(), 4);
  const BatchShape shape = batch.shape();
  EXPECT_EQ(shape.prefill.size(), 1u);
  EXPECT_EQ(shape.prefill_tokens, 512);
  EXPECT_EQ(shape.decode.count, 3);
  EXPECT_EQ(shape.decode.kv_tokens, 50);
  EXPECT_EQ(shape.decode.kv_tokens_squared, 1100);
  EXPECT_EQ(shape.decode.kv_tokens_max, 30);
}

}  // namespace
}  // namespace interleave::sim
