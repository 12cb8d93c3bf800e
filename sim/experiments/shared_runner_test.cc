#include "sim/experiments/shared_runner.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sim_time.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

using ::testing::HasSubstr;

int made = 0;
int alive = 0;
DecoderOptions last_options;

class FakeRunner final : public BatchRunner {
 public:
  FakeRunner() { ++alive; }
  ~FakeRunner() override { --alive; }
  absl::StatusOr<DecoderTiming> Run(const DecoderBatch& batch,
                                    DecoderOutput* output) override {
    return DecoderTiming{
        SimDuration::Nanos(static_cast<int64_t>(batch.tokens.size())),
        SimDuration::Zero()};
  }
  int32_t vocab_size() const override { return 11; }
  int32_t block_size() const override { return 16; }
  int64_t num_blocks() const override { return 7; }
  std::string Description() const override { return "a fake"; }
};

absl::StatusOr<std::unique_ptr<BatchRunner>> Make(
    const DecoderOptions& options) {
  if (options.seed == 13) return absl::ResourceExhaustedError("no room");
  EXPECT_EQ(alive, 0) << "two at a time would not fit";
  ++made;
  last_options = options;
  return std::make_unique<FakeRunner>();
}

class SharedRunnerTest : public ::testing::Test {
 protected:
  void SetUp() override { made = 0; }

  SharedRunner shared_{&Make, 4096};
  DecoderOptions options_;
};

TEST_F(SharedRunnerTest, MakesOneForSeveralRuns) {
  options_.max_num_batched_tokens = 512;
  for (const int32_t budget : {512, 2048, 4096}) {
    options_.max_num_batched_tokens = budget;
    ASSERT_OK_AND_ASSIGN(const auto runner, shared_.Create(options_));
    EXPECT_EQ(runner->vocab_size(), 11);
    EXPECT_EQ(runner->num_blocks(), 7);
    EXPECT_EQ(runner->Description(), "a fake");
    const std::vector<int32_t> tokens = {1, 2, 3};
    DecoderBatch batch;
    batch.tokens = tokens;
    ASSERT_OK_AND_ASSIGN(const DecoderTiming timing,
                         runner->Run(batch, nullptr));
    EXPECT_EQ(timing.device.nanos(), 3);
  }
  EXPECT_EQ(made, 1);
  EXPECT_EQ(last_options.max_num_batched_tokens, 4096);
}

TEST_F(SharedRunnerTest, MakesAnotherWhereItDoesNotSuit) {
  ASSERT_OK(shared_.Create(options_));
  options_.max_num_batched_tokens = 8192;
  ASSERT_OK(shared_.Create(options_));
  EXPECT_EQ(made, 2);
  options_.shape.num_layers = 3;
  ASSERT_OK(shared_.Create(options_));
  EXPECT_EQ(made, 3);
  options_.num_blocks = 5;
  ASSERT_OK(shared_.Create(options_));
  EXPECT_EQ(made, 4);
  options_.stream_weights = false;
  ASSERT_OK(shared_.Create(options_));
  EXPECT_EQ(made, 5);
  ASSERT_OK(shared_.Create(options_));
  EXPECT_EQ(made, 5);
}

TEST_F(SharedRunnerTest, OneRunAtATime) {
  ASSERT_OK_AND_ASSIGN(auto runner, shared_.Create(options_));
  EXPECT_THAT(shared_.Create(options_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("one at a time")));
  runner = nullptr;
  EXPECT_OK(shared_.Create(options_));
}

TEST_F(SharedRunnerTest, FailuresComeBack) {
  options_.seed = 13;
  EXPECT_THAT(shared_.Create(options_),
              StatusIs(absl::StatusCode::kResourceExhausted, "no room"));
  options_.seed = 14;
  EXPECT_OK(shared_.Create(options_));
}

}  // namespace
}  // namespace interleave::sim
