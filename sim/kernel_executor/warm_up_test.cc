#include "sim/kernel_executor/warm_up.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sim_time.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/kernel_executor/batch_packing.h"
#include "sim/kernel_executor/batch_runner.h"
#include "sim/kernel_executor/decoder_options.h"

namespace interleave::sim {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

// Tokens and sequences of each batch, all of which a decoder would take.
class FakeRunner final : public BatchRunner {
 public:
  explicit FakeRunner(const DecoderOptions& options) : options_(options) {}

  absl::StatusOr<DecoderTiming> Run(const DecoderBatch& batch,
                                    DecoderOutput* output) override {
    EXPECT_NE(output, nullptr);
    EXPECT_OK(ValidateBatch(batch, options_));
    batches.push_back({static_cast<int>(batch.tokens.size()),
                       static_cast<int>(batch.sequences.size())});
    if (fails) return absl::InternalError("the card fell off the bus");
    return DecoderTiming{SimDuration::Micros(70), SimDuration::Micros(3)};
  }
  int32_t vocab_size() const override { return options_.shape.vocab_size; }
  int32_t block_size() const override { return options_.block_size; }
  int64_t num_blocks() const override { return options_.num_blocks; }
  std::string Description() const override { return "a fake"; }

  std::vector<std::pair<int, int>> batches;
  bool fails = false;

 private:
  const DecoderOptions& options_;
};

DecoderOptions Options() {
  DecoderOptions options;
  options.shape.vocab_size = 100;
  options.shape.num_layers = 2;
  options.num_blocks = 100;
  return options;
}

TEST(WarmUpTest, RunsEveryKind) {
  const DecoderOptions options = Options();
  FakeRunner runner(options);
  EXPECT_OK(WarmUp(options, runner));
  for (const int tokens : {8, 16, 64, 512, 768}) {
    EXPECT_THAT(runner.batches, Contains(std::pair(tokens, 1))) << tokens;
  }
  EXPECT_THAT(runner.batches, Contains(std::pair(33, 2)));
  EXPECT_EQ(runner.batches.back(), std::pair(1, 1));
}

TEST(WarmUpTest, LeavesOutWhatDoesNotFit) {
  DecoderOptions options = Options();
  options.max_num_batched_tokens = 40;
  options.max_model_len = 16;
  options.max_num_seqs = 1;
  FakeRunner runner(options);
  EXPECT_OK(WarmUp(options, runner));
  EXPECT_THAT(runner.batches,
              ElementsAre(std::pair(8, 1), std::pair(16, 1), std::pair(1, 1)));
  options = Options();
  options.num_blocks = 1;
  runner.batches.clear();
  EXPECT_OK(WarmUp(options, runner));
  EXPECT_THAT(runner.batches,
              ElementsAre(std::pair(8, 1), std::pair(16, 1), std::pair(1, 1)));
}

TEST(WarmUpTest, SaysWhatFailed) {
  const DecoderOptions options = Options();
  FakeRunner runner(options);
  runner.fails = true;
  EXPECT_THAT(WarmUp(options, runner), StatusIs(absl::StatusCode::kInternal));
  EXPECT_EQ(runner.batches.size(), 1u);
}

}  // namespace
}  // namespace interleave::sim
