#include "scheduler/request.h"

#include <cstdint>
#include <set>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"

namespace interleave::scheduler {
namespace {

std::vector<int32_t> Read(const RequestSpec& spec, int64_t begin,
                          int64_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  RequestTokens(&spec).Read(begin, absl::MakeSpan(tokens));
  return tokens;
}

TEST(RequestTokensTest, ReadsAreConsistentWhereverTheyBegin) {
  RequestSpec spec;
  spec.id = 3;
  spec.segments = {{7, 5}, {8, 4}};
  const std::vector<int32_t> all = Read(spec, 0, 20);
  for (int64_t begin = 0; begin < 20; ++begin) {
    const std::vector<int32_t> tail = Read(spec, begin, 20 - begin);
    EXPECT_TRUE(std::equal(tail.begin(), tail.end(), all.begin() + begin))
        << begin;
  }
  for (int32_t token : all) EXPECT_GE(token, 0);
}

TEST(RequestTokensTest, EqualSegmentsGiveEqualTokens) {
  RequestSpec a;
  a.id = 1;
  a.segments = {{7, 16}};
  RequestSpec b;
  b.id = 2;
  b.segments = {{7, 16}};
  EXPECT_EQ(Read(a, 0, 16), Read(b, 0, 16));
  // What follows is each request's own.
  EXPECT_NE(Read(a, 16, 16), Read(b, 16, 16));
}

TEST(RequestTokensTest, ANameIsNeverARequest) {
  // Segment 4's tokens against the unique tokens of requests of like ids.
  RequestSpec named;
  named.id = 1000;
  named.segments = {{4, 8}};
  std::set<std::vector<int32_t>> seen = {Read(named, 0, 8)};
  for (int64_t id = 0; id < 100; ++id) {
    RequestSpec plain;
    plain.id = id;
    EXPECT_TRUE(seen.insert(Read(plain, 0, 8)).second) << id;
  }
}

TEST(RequestTest, KnowsWhatItMayStillTake) {
  RequestSpec spec;
  spec.prompt_tokens = 10;
  spec.output_tokens = 3;
  spec.max_output_tokens = 7;
  const int64_t counter = 0;
  const Request request(spec, &counter);
  EXPECT_EQ(request.phase(), Phase::kWaiting);
  EXPECT_EQ(request.num_tokens(), 10);
  EXPECT_EQ(request.remaining(), 10);
  EXPECT_EQ(request.remaining_output_limit(), 7);
  EXPECT_EQ(request.max_cached_tokens(), 16);
}

}  // namespace
}  // namespace interleave::scheduler
