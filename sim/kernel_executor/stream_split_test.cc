#include "sim/kernel_executor/stream_split.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

TEST(StreamSplitTest, WorkedByHand) {
  // 2 tiles of 4 units among 3 blocks: units 0-1, 2-4, 5-7.
  const StreamSplit split = MakeStreamSplit(256, 256, 3);
  EXPECT_EQ(split.units, 8);
  EXPECT_EQ(split.FirstUnit(1), 2);
  EXPECT_EQ(split.FirstUnit(2), 5);
  EXPECT_EQ(split.FirstUnit(3), 8);
  EXPECT_EQ(split.FirstBlock(0), 0);
  EXPECT_EQ(split.LastBlock(0), 1);
  EXPECT_EQ(split.FirstBlock(1), 1);
  EXPECT_EQ(split.LastBlock(1), 2);
  EXPECT_EQ(StreamPartials(split), 2 * 64 * 256);
  // No more blocks than units.
  EXPECT_EQ(MakeStreamSplit(256, 256, 100).blocks, 8);
}

TEST(StreamSplitTest, RefusesWhatTilesDoNotCover) {
  EXPECT_TRUE(CanStream(4096, 6144, 132));
  EXPECT_FALSE(CanStream(4096 + 32, 6144, 132));
  EXPECT_FALSE(CanStream(4096, 6144 + 64, 132));
  EXPECT_FALSE(CanStream(int64_t{1} << 20, int64_t{1} << 20, 132));
}

TEST(StreamSplitTest, EveryUnitHasOneBlockAndTilesKnowTheirs) {
  struct Shape {
    int64_t inputs;
    int64_t outputs;
    int32_t blocks;
  };
  for (const Shape& shape : std::vector<Shape>{{4096, 6144, 132},
                                               {4096, 4096, 132},
                                               {4096, 28672, 132},
                                               {14336, 4096, 132},
                                               {256, 512, 132},
                                               {512, 256, 7},
                                               {64, 128, 1}}) {
    const StreamSplit split =
        MakeStreamSplit(shape.inputs, shape.outputs, shape.blocks);
    EXPECT_EQ(split.FirstUnit(0), 0);
    EXPECT_EQ(split.FirstUnit(split.blocks), split.units);
    for (int block = 0; block < split.blocks; ++block) {
      const int count = split.FirstUnit(block + 1) - split.FirstUnit(block);
      EXPECT_GE(count, split.units / split.blocks);
      EXPECT_LE(count, split.units / split.blocks + 1);
      for (int unit = split.FirstUnit(block); unit < split.FirstUnit(block + 1);
           ++unit) {
        EXPECT_EQ(split.BlockOf(unit), block);
      }
    }
    EXPECT_GE(StreamPartials(split), split.slot_stride);
  }
}

}  // namespace
}  // namespace interleave::sim
