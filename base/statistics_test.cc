#include "base/statistics.h"

#include <cmath>

#include "gtest/gtest.h"

namespace interleave {
namespace {

TEST(QuantileTest, ByHand) {
  EXPECT_EQ(Quantile({7}, 0.95), 7);
  EXPECT_EQ(Quantile({3, 1, 2}, 0), 1);
  EXPECT_EQ(Quantile({3, 1, 2}, 1), 3);
  // Rank 0.95 x 4 = 3.8.
  EXPECT_DOUBLE_EQ(Quantile({50, 10, 20, 40, 30}, 0.95), 48);
  EXPECT_DOUBLE_EQ(Quantile({0, 10}, 0.25), 2.5);
}

TEST(MedianTest, ByHand) {
  EXPECT_EQ(Median({5}), 5);
  EXPECT_EQ(Median({9, 1, 5}), 5);
  EXPECT_EQ(Median({9, 1, 5, 2}), 3.5);
}

TEST(SpreadTest, ByHand) {
  EXPECT_EQ(SpreadOf({7}).mean, 7);
  EXPECT_EQ(SpreadOf({7}).deviation, 0);
  EXPECT_EQ(SpreadOf({1, 2, 6}).mean, 3);
  // (4 + 1 + 9) / 2.
  EXPECT_DOUBLE_EQ(SpreadOf({1, 2, 6}).deviation, std::sqrt(7.0));
}

}  // namespace
}  // namespace interleave
