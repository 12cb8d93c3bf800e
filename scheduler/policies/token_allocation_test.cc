#include "scheduler/policies/token_allocation.h"

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::scheduler {
namespace {

using ::testing::ElementsAre;

TEST(ShrinkingChunkTest, SizesAreEvenlySpacedOverEqualStretches) {
  const ShrinkingChunk chunk(/*largest=*/2048, /*smallest=*/512, /*stages=*/4,
                             /*over_tokens=*/8192);
  EXPECT_EQ(chunk.At(0), 2048);
  EXPECT_EQ(chunk.At(2047), 2048);
  EXPECT_EQ(chunk.At(2048), 1536);
  EXPECT_EQ(chunk.At(4096), 1024);
  EXPECT_EQ(chunk.At(6144), 512);
  EXPECT_EQ(chunk.At(100'000), 512);
}

TEST(ShrinkingChunkTest, SizesAreRoundedToUnits) {
  const ShrinkingChunk chunk(/*largest=*/500, /*smallest=*/100, /*stages=*/3,
                             /*over_tokens=*/10);
  EXPECT_EQ(chunk.At(0), 512);
  EXPECT_EQ(chunk.At(4), 288);
  EXPECT_EQ(chunk.At(8), 96);
}

TEST(ShrinkingChunkTest, OneStageIsTheLargest) {
  const ShrinkingChunk chunk(/*largest=*/256, /*smallest=*/32, /*stages=*/1,
                             /*over_tokens=*/1000);
  EXPECT_EQ(chunk.At(0), 256);
  EXPECT_EQ(chunk.At(5000), 256);
}

using Share = void (*)(absl::Span<PromptShare>, const ShareLimits&);

std::vector<int64_t> TokensOf(Share share,
                              const std::vector<int64_t>& remaining,
                              const ShareLimits& limits) {
  std::vector<PromptShare> shares;
  for (const int64_t tokens : remaining) shares.push_back({nullptr, tokens, 0});
  share(absl::MakeSpan(shares), limits);
  std::vector<int64_t> tokens;
  for (const PromptShare& s : shares) tokens.push_back(s.tokens);
  return tokens;
}

TEST(ShareFirstComeFirstServedTest, FillsThenCutsToUnits) {
  EXPECT_THAT(TokensOf(ShareFirstComeFirstServed, {30, 50, 40},
                       {.capacity = 60, .unit = 8}),
              ElementsAre(30, 24, 0));
}

TEST(ShareFirstComeFirstServedTest, WhatIsLeftUnderAUnitMayEndAnotherPrompt) {
  EXPECT_THAT(TokensOf(ShareFirstComeFirstServed, {30, 50, 6},
                       {.capacity = 60, .unit = 8}),
              ElementsAre(30, 24, 6));
}

TEST(ShareFirstComeFirstServedTest, LimitOfAPrompt) {
  EXPECT_THAT(TokensOf(ShareFirstComeFirstServed, {17, 12, 3},
                       {.capacity = 100, .unit = 5, .max_tokens = 12}),
              ElementsAre(10, 12, 3));
}

TEST(ShareEquallyTest, UnitsGoRound) {
  EXPECT_THAT(
      TokensOf(ShareEqually, {100, 100, 100}, {.capacity = 70, .unit = 10}),
      ElementsAre(30, 20, 20));
}

TEST(ShareEquallyTest, ShortPromptsLeaveTheirTurnsToOthers) {
  EXPECT_THAT(
      TokensOf(ShareEqually, {100, 13, 100}, {.capacity = 70, .unit = 10}),
      ElementsAre(30, 13, 20));
}

TEST(ShareEquallyTest, LastPieceMayBeLessThanAUnit) {
  EXPECT_THAT(TokensOf(ShareEqually, {7}, {.capacity = 7, .unit = 5}),
              ElementsAre(7));
  EXPECT_THAT(TokensOf(ShareEqually, {7}, {.capacity = 6, .unit = 5}),
              ElementsAre(5));
}

TEST(ShareEquallyTest, EverythingWhereEverythingFits) {
  EXPECT_THAT(TokensOf(ShareEqually, {41, 2, 17}, {.capacity = 60, .unit = 16}),
              ElementsAre(41, 2, 17));
}

TEST(ShareEquallyTest, LimitOfAPrompt) {
  EXPECT_THAT(TokensOf(ShareEqually, {17, 12},
                       {.capacity = 100, .unit = 5, .max_tokens = 12}),
              ElementsAre(10, 12));
}

}  // namespace
}  // namespace interleave::scheduler
