#include "base/arena.h"

#include "gtest/gtest.h"

namespace interleave {
namespace {

TEST(ArenaTest, HandsOutAlignedPieces) {
  alignas(256) char memory[1024];
  Arena arena(memory);
  EXPECT_EQ(arena.TakeBytes(1), memory);
  EXPECT_EQ(arena.Take<float>(64), reinterpret_cast<float*>(memory + 256));
  EXPECT_EQ(arena.TakeBytes(257), memory + 512);
  EXPECT_EQ(arena.size(), 1024);
  Arena counts(nullptr);
  EXPECT_EQ(counts.TakeBytes(1), nullptr);
  EXPECT_EQ(counts.size(), 256);
}

}  // namespace
}  // namespace interleave
