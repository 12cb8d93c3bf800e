#include "sim/profiling/runner_timer.h"

#include <algorithm>
#include <set>
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

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Keeps what it was given.
class FakeRunner final : public BatchRunner {
 public:
  absl::StatusOr<DecoderTiming> Run(const DecoderBatch& batch,
                                    DecoderOutput* output) override {
    EXPECT_EQ(output, nullptr);
    lengths.clear();
    blocks.clear();
    for (const DecoderSequence& s : batch.sequences) {
      lengths.push_back({s.num_tokens, s.cached_tokens});
      blocks.emplace_back(s.blocks.begin(), s.blocks.end());
      EXPECT_TRUE(s.sample);
    }
    tokens.assign(batch.tokens.begin(), batch.tokens.end());
    part = batch.part;
    layers = batch.layers;
    return DecoderTiming{SimDuration::Micros(70), SimDuration::Micros(3)};
  }
  int32_t vocab_size() const override { return 100; }
  int32_t block_size() const override { return 16; }
  int64_t num_blocks() const override { return 10; }
  std::string Description() const override { return "a fake"; }

  std::vector<std::pair<int32_t, int32_t>> lengths;
  std::vector<std::vector<int32_t>> blocks;
  std::vector<int32_t> tokens;
  BatchPart part = BatchPart::kAll;
  int32_t layers = 0;
};

TEST(RunnerTimerTest, MakesSequencesBlocksAndTokens) {
  FakeRunner runner;
  RunnerTimer timer(&runner, 1);
  MeasuredBatch batch = Mixed({20, 16}, 2, 31);
  batch.part = BatchPart::kWithoutAttention;
  batch.layers = 2;
  ASSERT_OK_AND_ASSIGN(const BatchTime time, timer.Time(batch));
  EXPECT_EQ(time.device, SimDuration::Micros(70));
  EXPECT_EQ(time.host, SimDuration::Micros(3));
  EXPECT_EQ(runner.part, BatchPart::kWithoutAttention);
  EXPECT_EQ(runner.layers, 2);
  EXPECT_THAT(runner.lengths, ElementsAre(std::pair(1, 31), std::pair(1, 31),
                                          std::pair(20, 16)));
  // 32, 32 and 36 tokens: 2, 2 and 3 blocks, none twice.
  std::set<int32_t> distinct;
  std::vector<size_t> counts;
  for (const auto& blocks : runner.blocks) {
    counts.push_back(blocks.size());
    distinct.insert(blocks.begin(), blocks.end());
  }
  EXPECT_THAT(counts, ElementsAre(2, 2, 3));
  // In a row.
  EXPECT_EQ(runner.blocks[2][1], runner.blocks[2][0] + 1);
  EXPECT_EQ(runner.blocks[2][2], runner.blocks[2][0] + 2);
  EXPECT_EQ(distinct.size(), 7u);
  EXPECT_GE(*distinct.begin(), 0);
  EXPECT_LT(*distinct.rbegin(), 10);
  ASSERT_EQ(runner.tokens.size(), 22u);
  EXPECT_GE(*std::min_element(runner.tokens.begin(), runner.tokens.end()), 0);
  EXPECT_LT(*std::max_element(runner.tokens.begin(), runner.tokens.end()), 100);
  EXPECT_GT(
      std::set<int32_t>(runner.tokens.begin(), runner.tokens.end()).size(),
      10u);
}

TEST(RunnerTimerTest, BlocksRepeatAsFarApartAsCanBe) {
  FakeRunner runner;
  RunnerTimer timer(&runner, 1);
  // Five sequences of four blocks, of ten.
  ASSERT_OK(timer.Time(Decodes(5, 63)));
  std::vector<int32_t> all;
  for (const auto& blocks : runner.blocks) {
    ASSERT_EQ(blocks.size(), 4u);
    all.insert(all.end(), blocks.begin(), blocks.end());
  }
  for (size_t i = 0; i + 10 < all.size(); ++i) EXPECT_EQ(all[i], all[i + 10]);
  EXPECT_EQ(std::set<int32_t>(all.begin(), all.begin() + 10).size(), 10u);
}

TEST(RunnerTimerTest, RepeatedDecodesReadTheirBlocksAgain) {
  FakeRunner runner;
  RunnerTimer timer(&runner, 1);
  const auto blocks_of = [&](const MeasuredBatch& batch) {
    EXPECT_OK(timer.Time(batch));
    return runner.blocks;
  };
  const auto first = blocks_of(Decodes(2, 20));
  EXPECT_EQ(blocks_of(Decodes(2, 20)), first);
  EXPECT_NE(blocks_of(Decodes(2, 21)), first);
  // Nothing evicts what a piece without weights has read.
  MeasuredBatch piece = Decodes(2, 20);
  piece.part = BatchPart::kAttention;
  const auto of_piece = blocks_of(piece);
  EXPECT_NE(blocks_of(piece), of_piece);
  const auto with_prompt = blocks_of(Mixed({16, 0}, 1, 20));
  EXPECT_NE(blocks_of(Mixed({16, 0}, 1, 20)), with_prompt);
}

TEST(RunnerTimerTest, ASequenceMustFit) {
  FakeRunner runner;
  RunnerTimer timer(&runner, 1);
  EXPECT_OK(timer.Time(Decodes(1, 159)));
  EXPECT_THAT(timer.Time(Decodes(1, 160)),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("sequence of 11 blocks")));
}

}  // namespace
}  // namespace interleave::sim
