#include "base/statistics.h"

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

}  // namespace
}  // namespace interleave
