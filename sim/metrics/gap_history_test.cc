#include "sim/metrics/gap_history.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "base/sim_time.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

SimDuration Ns(int64_t ns) { return SimDuration::Nanos(ns); }

TEST(GapHistoryTest, AnswersByBegin) {
  GapHistory history;
  EXPECT_EQ(history.Longest(0), SimDuration::Zero());
  history.Push(0, Ns(9));
  history.Push(1, Ns(4));
  history.Push(2, Ns(6));
  history.Push(3, Ns(2));
  EXPECT_EQ(history.Longest(0), Ns(9));
  EXPECT_EQ(history.Longest(1), Ns(6));
  EXPECT_EQ(history.Longest(3), Ns(2));
  EXPECT_EQ(history.Longest(4), SimDuration::Zero());
}

TEST(GapHistoryTest, AgreesWithAScanOnRandomGaps) {
  std::mt19937_64 random(11);
  GapHistory history;
  std::vector<SimDuration> gaps;
  int64_t dropped = 0;
  for (int64_t i = 0; i < 3000; ++i) {
    gaps.push_back(Ns(static_cast<int64_t>(random() % 100)));
    history.Push(i, gaps.back());
    if (i % 500 == 499) {
      dropped = i - 100;
      history.DropBefore(dropped);
    }
    const int64_t begin =
        dropped +
        static_cast<int64_t>(random() % static_cast<uint64_t>(i - dropped + 1));
    ASSERT_EQ(history.Longest(begin),
              *std::max_element(gaps.begin() + begin, gaps.end()));
  }
}

}  // namespace
}  // namespace interleave::sim
