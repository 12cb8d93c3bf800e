#include "sim/cost/create_cost_model.h"

#include <vector>

#include "absl/status/status.h"
#include "base/sim_time.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/cost/batch_shape.h"

namespace interleave::sim {
namespace {

using ::testing::HasSubstr;

TEST(CreateCostModelTest, RooflineIsTheDefault) {
  ASSERT_OK_AND_ASSIGN(const auto cost, CreateCostModel(CostModelConfig()));
  EXPECT_EQ(cost->Description(), "roofline of llama3.1_8b (BF16) on 1 x h200");
}

TEST(CreateCostModelTest, UnknownNames) {
  CostModelConfig config;
  config.set_model("gpt");
  EXPECT_THAT(CreateCostModel(config),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("llama3.1_8b")));
  config.clear_model();
  config.set_device("tpu");
  EXPECT_THAT(CreateCostModel(config),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("h200")));
}

// Of the times that an H200 took, a rough idea: weights and cache bound a
// decode iteration from below, the arithmetic of 2,048 tokens a prefill.
TEST(CreateCostModelTest, ShippedProfile) {
  CostModelConfig config;
  config.mutable_profile()->set_name("h200_llama3.1_8b");
  ASSERT_OK_AND_ASSIGN(const auto cost, CreateCostModel(config));
  BatchShape shape;
  shape.decode.count = 64;
  shape.decode.kv_tokens = 64 * 2048;
  const double decode_ms = cost->IterationTime(shape).millis();
  EXPECT_GT(decode_ms, 7.5);
  EXPECT_LT(decode_ms, 12.0);
  const std::vector<PrefillChunk> prefill = {{2048, 0}};
  BatchShape prompt;
  prompt.prefill = prefill;
  prompt.prefill_tokens = 2048;
  const double prefill_ms = cost->IterationTime(prompt).millis();
  EXPECT_GT(prefill_ms, 40.0);
  EXPECT_LT(prefill_ms, 55.0);
  EXPECT_EQ(cost->stats().outside_grid, 0);
  config.set_device("h100_sxm");
  EXPECT_THAT(CreateCostModel(config),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("device_name h200")));
}

TEST(CreateCostModelTest, TablesWantADirectory) {
  CostModelConfig config;
  config.mutable_profile();
  EXPECT_THAT(CreateCostModel(config),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("profile option directory is empty")));
  config.mutable_profile()->set_directory("/nonexistent");
  EXPECT_THAT(CreateCostModel(config),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("/nonexistent/dense.csv")));
  config.mutable_kernel_tables()->set_directory("/nonexistent");
  EXPECT_THAT(CreateCostModel(config),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nonexistent")));
}

TEST(CreateCostModelTest, BlockSizeMustBePositive) {
  CostModelConfig config;
  config.set_block_size(0);
  EXPECT_THAT(CreateCostModel(config),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("block_size is 0")));
}

TEST(CreateCostModelTest, HostOverhead) {
  HostOverheadOptions options;
  options.set_constant_us(200);
  options.set_per_sequence_us(1.5);
  ASSERT_OK_AND_ASSIGN(const HostOverhead overhead,
                       CreateHostOverhead(options));
  EXPECT_EQ(overhead.Of(0), SimDuration::Nanos(200'000));
  EXPECT_EQ(overhead.Of(100), SimDuration::Nanos(350'000));
  options.set_per_sequence_us(-1);
  EXPECT_THAT(CreateHostOverhead(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("per_sequence_us")));
}

}  // namespace
}  // namespace interleave::sim
