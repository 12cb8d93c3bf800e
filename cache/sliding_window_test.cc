#include "cache/sliding_window.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace interleave::cache {
namespace {

// 'T': cached.
int64_t Hit(absl::string_view cached, int64_t inside) {
  return LongestWindowHit(
      static_cast<int64_t>(cached.size()), inside,
      [&](int64_t i) { return cached[static_cast<size_t>(i)] == 'T'; });
}

TEST(SlidingWindowTest, LongestHitOfTwoBlocksInsideTheWindow) {
  EXPECT_EQ(BlocksInsideWindow(/*window=*/4, /*block_size=*/2), 2);
  EXPECT_EQ(Hit("FFFFFFFFFF", 2), 0);
  EXPECT_EQ(Hit("T", 2), 1);
  EXPECT_EQ(Hit("TF", 2), 1);
  EXPECT_EQ(Hit("TT", 2), 2);
  EXPECT_EQ(Hit("TTF", 2), 2);
  EXPECT_EQ(Hit("TTT", 2), 3);
  EXPECT_EQ(Hit("TTTF", 2), 3);
  EXPECT_EQ(Hit("TTFTFFTTFTTT", 2), 12);
  EXPECT_EQ(Hit("TTFTFFTTFFF", 2), 8);
  EXPECT_EQ(Hit("TTFTFFTTFFFT", 2), 8);
}

TEST(SlidingWindowTest, AWindowOfOneNeedsNoBlockBefore) {
  EXPECT_EQ(BlocksInsideWindow(1, 4), 0);
  EXPECT_EQ(Hit("FFF", 0), 3);
}

TEST(SlidingWindowTest, BlocksLeaveWhenNoQueryReadsThem) {
  // The query at position 8 reads 5 to 8: blocks 0-1 and 2-3 are unread.
  EXPECT_EQ(BlocksOutsideWindow(8, 4, 2), 2);
  EXPECT_EQ(BlocksOutsideWindow(0, 4, 2), 0);
  EXPECT_EQ(BlocksOutsideWindow(4, 4, 2), 0);
  EXPECT_EQ(BlocksOutsideWindow(5, 4, 2), 1);
  EXPECT_EQ(BlocksOutsideWindow(3, 1, 2), 1);
  EXPECT_EQ(BlocksOutsideWindow(4, 1, 2), 2);
}

TEST(SlidingWindowTest, InsideAndOutsideAddUpAtBlockBoundaries) {
  for (int64_t block_size = 1; block_size < 6; ++block_size) {
    for (int64_t window = 1; window < 30; ++window) {
      const int64_t inside = BlocksInsideWindow(window, block_size);
      for (int64_t blocks = inside; blocks < 20; ++blocks) {
        EXPECT_EQ(BlocksOutsideWindow(blocks * block_size, window, block_size),
                  blocks - inside);
      }
    }
  }
}

}  // namespace
}  // namespace interleave::cache
