#include "base/ceil_div.h"

#include "gtest/gtest.h"

namespace interleave {
namespace {

TEST(CeilDivTest, RoundsUp) {
  EXPECT_EQ(CeilDiv(0, 16), 0);
  EXPECT_EQ(CeilDiv(1, 16), 1);
  EXPECT_EQ(CeilDiv(16, 16), 1);
  EXPECT_EQ(CeilDiv(17, 16), 2);
}

}  // namespace
}  // namespace interleave
