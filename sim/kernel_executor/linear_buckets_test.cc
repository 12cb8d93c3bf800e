#include "sim/kernel_executor/linear_buckets.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

using ::testing::ElementsAre;

TEST(LinearBucketsTest, ByHand) {
  EXPECT_THAT(LinearBuckets(1), ElementsAre(1));
  EXPECT_THAT(LinearBuckets(5), ElementsAre(1, 5));
  EXPECT_THAT(LinearBuckets(40), ElementsAre(1, 8, 16, 32, 40));
  EXPECT_THAT(LinearBuckets(300), ElementsAre(1, 8, 16, 32, 48, 64, 80, 96, 112,
                                              128, 160, 192, 224, 256, 300));
}

}  // namespace
}  // namespace interleave::sim
