#include "sim/cost/level.h"

#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

TEST(LevelTest, IsOneWhereNothingIsKnown) {
  EXPECT_EQ(Level().At(0), 1);
  EXPECT_EQ(Level().At(512), 1);
}

TEST(LevelTest, ByHand) {
  const Level level({{511, 0.9}, {512, 0.5}, {1024, 1.1}});
  EXPECT_EQ(level.At(1), 0.9);
  EXPECT_EQ(level.At(511), 0.9);
  EXPECT_EQ(level.At(512), 0.5);
  EXPECT_EQ(level.At(513), 1.1);
  EXPECT_EQ(level.At(1024), 1.1);
  EXPECT_EQ(level.At(8192), 1.1);
}

}  // namespace
}  // namespace interleave::sim
