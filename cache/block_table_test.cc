#include "cache/block_table.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

TEST(BlockTableTest, KeepsEntriesWhenItGrows) {
  BlockTableArena arena;
  BlockTable table;
  std::vector<int32_t> expected;
  for (int32_t i = 0; i < 1000; ++i) {
    arena.Reserve(table, table.size + 1);
    table.blocks[table.size++] = i;
    expected.push_back(i);
  }
  EXPECT_THAT(table.all(), ElementsAreArray(expected));
  EXPECT_GE(table.capacity, 1000);
  arena.Free(table);
  EXPECT_EQ(table.capacity, 0);
  EXPECT_EQ(table.size, 0);
}

TEST(BlockTableTest, HeldLeavesOutWhatWasDropped) {
  BlockTableArena arena;
  BlockTable table;
  arena.Reserve(table, 3);
  for (const int32_t block : {-1, -1, 5}) table.blocks[table.size++] = block;
  table.dropped = 2;
  EXPECT_THAT(table.all(), ElementsAre(-1, -1, 5));
  EXPECT_THAT(table.held(), ElementsAre(5));
  arena.Free(table);
}

TEST(BlockTableTest, UsesMemoryAgain) {
  BlockTableArena arena;
  BlockTable first;
  arena.Reserve(first, 20);
  const int32_t* const memory = first.blocks;
  arena.Free(first);
  BlockTable second;
  arena.Reserve(second, 32);
  EXPECT_EQ(second.blocks, memory);
  arena.Free(second);
}

TEST(BlockTableTest, TablesDoNotOverlap) {
  BlockTableArena arena;
  std::vector<BlockTable> tables(200);
  for (size_t i = 0; i < tables.size(); ++i) {
    const int32_t size = static_cast<int32_t>(i * i * 3 + 1);
    arena.Reserve(tables[i], size);
    tables[i].size = size;
    for (int32_t k = 0; k < size; ++k) {
      tables[i].blocks[k] = static_cast<int32_t>(i);
    }
  }
  for (size_t i = 0; i < tables.size(); ++i) {
    for (const int32_t entry : tables[i].all()) {
      ASSERT_EQ(entry, static_cast<int32_t>(i));
    }
    arena.Free(tables[i]);
  }
}

}  // namespace
}  // namespace interleave::cache
