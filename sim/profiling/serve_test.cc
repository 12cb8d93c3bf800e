#include "sim/profiling/serve.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ceil_div.h"
#include "base/sim_time.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/cost/batch_shape.h"
#include "sim/executor.h"
#include "sim/kernel_executor/batch_runner.h"
#include "sim/testing/fake_samples.h"
#include "sim/testing/linear_cost_model.h"

namespace interleave::sim {
namespace {

using ::testing::HasSubstr;

// Batches take what the model below says.
class FakeRunner final : public BatchRunner {
 public:
  explicit FakeRunner(int64_t blocks) : blocks_(blocks) {}

  absl::StatusOr<DecoderTiming> Run(const DecoderBatch& batch,
                                    DecoderOutput* output) override {
    if (calls_++ == fail_at) return absl::InternalError("the card fell off");
    SampleFakes(batch, output);
    const auto tokens = static_cast<int64_t>(batch.tokens.size());
    return DecoderTiming{SimDuration::Micros(3'500 + 20 * tokens), {}};
  }
  int32_t vocab_size() const override { return 100; }
  int32_t block_size() const override { return 16; }
  int64_t num_blocks() const override { return blocks_; }
  std::string Description() const override { return "fake"; }

  int fail_at = -1;

 private:
  const int64_t blocks_;
  int calls_ = 0;
};

LinearCostModel Model() {
  return LinearCostModel(
      {.iteration = 3'500'000, .prefill_token = 20'000, .decode = 20'000});
}

TEST(ServeTest, HasEveryKindOfBatchUntilToldThatItIsEnough) {
  FakeRunner runner(/*blocks=*/60'000);
  LinearCostModel model = Model();
  int batches = 0;
  int decodes_alone = 0;
  int many_decodes_alone = 0;
  int64_t most_decodes = 0;
  int prompts_alone = 0;
  int mixed = 0;
  int few_decodes = 0;
  std::set<int64_t> tokens;
  ASSERT_OK(Serve(
      runner, model, ServeOptions(),
      [&](const BatchShape& shape, const IterationTiming& timing) {
        const int64_t parts = CeilDiv(shape.num_tokens(), 8192);
        EXPECT_EQ(timing.device,
                  SimDuration::Micros(3'500 * parts + 20 * shape.num_tokens()));
        EXPECT_LE(shape.num_sequences(), 256);
        if (shape.prefill.empty()) {
          ++decodes_alone;
          if (shape.decode.count > 64) ++many_decodes_alone;
          most_decodes = std::max(most_decodes, shape.decode.count);
          if (shape.decode.count < 8) ++few_decodes;
        } else if (shape.decode.count == 0) {
          ++prompts_alone;
        } else {
          ++mixed;
          tokens.insert(shape.num_tokens());
        }
        return ++batches < 12'000;
      }));
  EXPECT_EQ(batches, 12'000);
  EXPECT_GT(decodes_alone, 4'000);
  EXPECT_GT(few_decodes, 300);
  EXPECT_GT(many_decodes_alone, 100);
  EXPECT_EQ(most_decodes, 256);
  EXPECT_GT(prompts_alone, 100);
  EXPECT_GT(mixed, 500);
  // Full batches of each budget, and orca's, which has none.
  for (const int64_t full : {1024, 2048}) EXPECT_EQ(tokens.count(full), 1u);
  EXPECT_GT(*tokens.rbegin(), 2048);
}

TEST(ServeTest, TakesASmallEngine) {
  FakeRunner runner(/*blocks=*/200);
  LinearCostModel model = Model();
  ServeOptions options;
  options.limits = {
      .max_num_seqs = 8, .max_num_batched_tokens = 64, .max_model_len = 256};
  options.max_tokens = 64;
  int batches = 0;
  ASSERT_OK(Serve(runner, model, options,
                  [&](const BatchShape& shape, const IterationTiming&) {
                    EXPECT_LE(shape.decode.count, 8);
                    return ++batches < 2'000;
                  }));
  EXPECT_EQ(batches, 2'000);
}

TEST(ServeTest, TellsWhatTheRunnerSays) {
  FakeRunner runner(/*blocks=*/60'000);
  runner.fail_at = 100;
  LinearCostModel model = Model();
  int batches = 0;
  const auto count = [&](const BatchShape&, const IterationTiming&) {
    ++batches;
    return true;
  };
  EXPECT_THAT(
      Serve(runner, model, ServeOptions(), count),
      StatusIs(absl::StatusCode::kInternal, HasSubstr("the card fell off")));
  EXPECT_GT(batches, 50);
}

TEST(ServeTest, SaysWhereTheCacheIsTooSmall) {
  FakeRunner runner(/*blocks=*/0);
  LinearCostModel model = Model();
  EXPECT_THAT(
      Serve(runner, model, ServeOptions(),
            [](const BatchShape&, const IterationTiming&) { return true; }),
      StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace interleave::sim
