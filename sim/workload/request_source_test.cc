#include "sim/workload/request_source.h"

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/sim_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/request_spec.h"
#include "sim/workload/length_law.h"

namespace interleave::sim {
namespace {

using ::interleave::scheduler::PromptSegment;
using ::interleave::scheduler::RequestSpec;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kRequests = 100000;

std::unique_ptr<RequestSource> Fixed(int32_t prompt, int32_t output) {
  return MakeLengthSource(MakeFixedLength(prompt), MakeFixedLength(output),
                          Rng(1));
}

TEST(ListSourceTest, GivesTheListInOrder) {
  std::vector<RequestSpec> list(2);
  list[0].prompt_tokens = 5;
  list[1].prompt_tokens = 6;
  list[1].segments = {{3, 6}};
  const auto source = MakeListSource(list);
  EXPECT_EQ(source->size(), 2);
  EXPECT_EQ(source->Next(), list[0]);
  EXPECT_EQ(source->Next(), list[1]);
}

TEST(LengthSourceTest, StreamsAreIndependent) {
  // Another law for prompts leaves the outputs where they were.
  const auto a = MakeLengthSource(MakeUniformLength(1, 1000),
                                  MakeUniformLength(1, 1000), Rng(9));
  const auto b = MakeLengthSource(MakeZipfLength(1, 50, 1.2),
                                  MakeUniformLength(1, 1000), Rng(9));
  for (int i = 0; i < 1000; ++i) {
    const RequestSpec from_a = a->Next();
    const RequestSpec from_b = b->Next();
    ASSERT_EQ(from_a.output_tokens, from_b.output_tokens);
    ASSERT_EQ(from_a.max_output_tokens, from_a.output_tokens);
  }
}

TEST(PairSourceTest, KeepsPairsTogether) {
  const auto source = MakePairSource({{1, 10}, {2, 20}, {3, 30}}, Rng(2));
  std::map<int32_t, int> counts;
  for (int i = 0; i < kRequests; ++i) {
    const RequestSpec spec = source->Next();
    ASSERT_EQ(spec.output_tokens, 10 * spec.prompt_tokens);
    ++counts[spec.prompt_tokens];
  }
  for (int prompt = 1; prompt <= 3; ++prompt) {
    EXPECT_NEAR(counts[prompt], kRequests / 3, 800);
  }
}

TEST(ClassesTest, SharesFollowTheWeights) {
  RequestClass interactive;
  interactive.weight = 3;
  interactive.tenant = 1;
  interactive.slo.ttft = SimDuration::Millis(200);
  RequestClass batch;
  batch.tenant = 2;
  batch.priority = 5;
  const auto source = WithClasses(Fixed(10, 10), {interactive, batch}, Rng(3));
  int interactive_count = 0;
  for (int i = 0; i < kRequests; ++i) {
    const RequestSpec spec = source->Next();
    if (spec.tenant == 1) {
      ++interactive_count;
      ASSERT_EQ(spec.slo.ttft, SimDuration::Millis(200));
      ASSERT_EQ(spec.priority, 0);
    } else {
      ASSERT_EQ(spec.tenant, 2);
      ASSERT_EQ(spec.priority, 5);
      ASSERT_EQ(spec.slo.ttft, SimDuration::Max());
    }
  }
  EXPECT_NEAR(interactive_count, kRequests * 3 / 4, 700);
}

TEST(SharedPrefixesTest, FractionAndIdsAreAsAsked) {
  SharedPrefixes prefixes;
  prefixes.fraction = 0.4;
  prefixes.num_prefixes = 3;
  prefixes.tokens = 64;
  const auto source = WithSharedPrefixes(Fixed(100, 10), prefixes, Rng(4));
  int shared = 0;
  std::map<int64_t, int> counts;
  for (int i = 0; i < kRequests; ++i) {
    const RequestSpec spec = source->Next();
    ASSERT_EQ(spec.prompt_tokens, 100);
    if (spec.segments.empty()) continue;
    ++shared;
    ASSERT_EQ(spec.segments.size(), 1);
    ASSERT_EQ(spec.segments[0].num_tokens, 64);
    ++counts[spec.segments[0].content_id];
  }
  EXPECT_NEAR(shared, 0.4 * kRequests, 700);
  ASSERT_EQ(counts.size(), 3);
  for (int64_t id = 0; id < 3; ++id) EXPECT_NEAR(counts[id], shared / 3, 500);
}

TEST(SharedPrefixesTest, ShortPromptIsAllPrefix) {
  SharedPrefixes prefixes;
  prefixes.tokens = 64;
  const auto source = WithSharedPrefixes(Fixed(50, 10), prefixes, Rng(5));
  EXPECT_THAT(source->Next().segments, ElementsAre(PromptSegment{0, 50}));
}

TEST(SharedPrefixesTest, FractionZeroSharesNothing) {
  SharedPrefixes prefixes;
  prefixes.fraction = 0;
  const auto source = WithSharedPrefixes(Fixed(50, 10), prefixes, Rng(5));
  for (int i = 0; i < 1000; ++i)
    EXPECT_THAT(source->Next().segments, IsEmpty());
}

TEST(MaxOutputTokensTest, CutsAndAnnounces) {
  const auto longer = WithMaxOutputTokens(Fixed(10, 300), 256);
  EXPECT_EQ(longer->Next().output_tokens, 256);
  EXPECT_EQ(longer->Next().max_output_tokens, 256);
  const auto shorter = WithMaxOutputTokens(Fixed(10, 30), 256);
  EXPECT_EQ(shorter->Next().output_tokens, 30);
  EXPECT_EQ(shorter->Next().max_output_tokens, 256);
}

}  // namespace
}  // namespace interleave::sim
