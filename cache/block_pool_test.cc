#include "cache/block_pool.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<int32_t> Allocate(BlockPool& pool, int64_t count) {
  std::vector<int32_t> blocks(static_cast<size_t>(count));
  EXPECT_TRUE(pool.AllocateInto(count, blocks.data()));
  EXPECT_OK(pool.CheckInvariants());
  return blocks;
}

absl::Status Release(BlockPool& pool, std::vector<int32_t> blocks) {
  const absl::Status status = pool.Release(blocks);
  EXPECT_OK(pool.CheckInvariants());
  return status;
}

TEST(BlockPoolTest, GivesBlocksInOrderOfTheirIds) {
  BlockPool pool(4);
  EXPECT_THAT(pool.FreeOrder(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Allocate(pool, 3), ElementsAre(0, 1, 2));
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_EQ(pool.num_used(), 3);
  EXPECT_EQ(pool.ref_count(BlockId(2)), 1);
  EXPECT_EQ(pool.ref_count(BlockId(3)), 0);
}

TEST(BlockPoolTest, FreeListIsAQueueThatBlocksCanLeaveFromTheMiddle) {
  BlockPool pool(5);
  EXPECT_THAT(Allocate(pool, 1), ElementsAre(0));
  EXPECT_EQ(pool.num_free(), 4);
  pool.Touch(BlockId(2));
  EXPECT_EQ(pool.num_free(), 3);
  EXPECT_THAT(pool.FreeOrder(), ElementsAre(1, 3, 4));
  ASSERT_OK(Release(pool, {2}));
  EXPECT_THAT(pool.FreeOrder(), ElementsAre(1, 3, 4, 2));
  EXPECT_THAT(Allocate(pool, 4), ElementsAre(1, 3, 4, 2));
  int32_t none;
  EXPECT_FALSE(pool.AllocateInto(1, &none));
}

TEST(BlockPoolTest, ReleasedBlocksJoinTheEnd) {
  BlockPool pool(6);
  Allocate(pool, 6);
  ASSERT_OK(Release(pool, {}));
  EXPECT_EQ(pool.num_free(), 0);
  ASSERT_OK(Release(pool, {0}));
  ASSERT_OK(Release(pool, {4, 5}));
  ASSERT_OK(Release(pool, {1, 2, 3}));
  EXPECT_THAT(pool.FreeOrder(), ElementsAre(0, 4, 5, 1, 2, 3));
}

TEST(BlockPoolTest, AllocatesSeveralFromAMixedOrder) {
  BlockPool pool(6);
  Allocate(pool, 6);
  ASSERT_OK(Release(pool, {1, 3, 5, 4, 0, 2}));
  EXPECT_THAT(Allocate(pool, 0), IsEmpty());
  EXPECT_THAT(Allocate(pool, 1), ElementsAre(1));
  EXPECT_THAT(Allocate(pool, 2), ElementsAre(3, 5));
  EXPECT_THAT(Allocate(pool, 3), ElementsAre(4, 0, 2));
}

TEST(BlockPoolTest, TailFirstReverses) {
  BlockPool pool(4);
  const std::vector<int32_t> blocks = Allocate(pool, 3);
  ASSERT_OK(pool.ReleaseTailFirst(blocks));
  EXPECT_THAT(pool.FreeOrder(), ElementsAre(3, 2, 1, 0));
}

TEST(BlockPoolTest, CountsAllocationsInPieces) {
  BlockPool pool(16);
  const std::vector<int32_t> four = Allocate(pool, 4);
  EXPECT_EQ(pool.num_free(), 12);
  for (const int64_t left : {10, 8, 6}) {
    Allocate(pool, 2);
    EXPECT_EQ(pool.num_free(), left);
  }
  const std::vector<int32_t> six = Allocate(pool, 6);
  EXPECT_EQ(pool.num_free(), 0);
  int32_t none;
  EXPECT_FALSE(pool.AllocateInto(1, &none));
  ASSERT_OK(Release(pool, four));
  EXPECT_EQ(pool.num_free(), 4);
  EXPECT_THAT(Release(pool, four),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  ASSERT_OK(Release(pool, six));
  EXPECT_EQ(pool.num_free(), 10);
  EXPECT_EQ(pool.peak_used(), 16);
}

TEST(BlockPoolTest, RefusesMoreThanThereIsAndNegativeCounts) {
  BlockPool pool(3);
  std::vector<int32_t> out(4, 77);
  EXPECT_FALSE(pool.AllocateInto(4, out.data()));
  EXPECT_FALSE(pool.AllocateInto(-1, out.data()));
  EXPECT_THAT(out, ElementsAre(77, 77, 77, 77));
  EXPECT_EQ(pool.num_free(), 3);
  EXPECT_EQ(pool.peak_used(), 0);
}

TEST(BlockPoolTest, RefusedReleaseChangesNothing) {
  BlockPool pool(1);
  Allocate(pool, 1);
  EXPECT_THAT(Release(pool, {0, -1}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("block -1")));
  EXPECT_THAT(Release(pool, {0, 2}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("block 2")));
  EXPECT_EQ(pool.ref_count(BlockId(0)), 1);
  EXPECT_EQ(pool.num_free(), 0);
  ASSERT_OK(Release(pool, {0}));
  EXPECT_THAT(Release(pool, {0}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("block 0 is released, but it is free")));
}

TEST(BlockPoolTest, RefusesABlockListedTwice) {
  BlockPool pool(4);
  Allocate(pool, 3);
  EXPECT_THAT(Release(pool, {1, 0, 1}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("block 1 is listed twice")));
  EXPECT_EQ(pool.num_free(), 1);
  // Two references do not make it legal: a table lists a block once.
  pool.Touch(BlockId(1));
  EXPECT_THAT(Release(pool, {1, 0, 1}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(pool.ref_count(BlockId(1)), 2);
  EXPECT_EQ(pool.ref_count(BlockId(0)), 1);
  EXPECT_EQ(pool.num_shared(), 1);
  EXPECT_THAT(pool.FreeOrder(), ElementsAre(3));
}

TEST(BlockPoolTest, SharedBlocksAreFreeAfterTheLastRelease) {
  BlockPool pool(2);
  Allocate(pool, 1);
  pool.Touch(BlockId(0));
  pool.Touch(BlockId(0));
  EXPECT_EQ(pool.ref_count(BlockId(0)), 3);
  EXPECT_EQ(pool.num_shared(), 1);
  ASSERT_OK(Release(pool, {0}));
  EXPECT_EQ(pool.num_shared(), 1);
  ASSERT_OK(Release(pool, {0}));
  EXPECT_EQ(pool.num_shared(), 0);
  EXPECT_EQ(pool.num_free(), 1);
  ASSERT_OK(Release(pool, {0}));
  EXPECT_THAT(pool.FreeOrder(), ElementsAre(1, 0));
}

TEST(BlockPoolTest, TellsWhichCachedBlocksAreEvicted) {
  BlockPool pool(4);
  Allocate(pool, 4);
  pool.set_cached(BlockId(1), true);
  pool.set_cached(BlockId(3), true);
  ASSERT_OK(Release(pool, {3, 2, 1, 0}));
  EXPECT_TRUE(pool.is_cached(BlockId(3)));
  std::vector<int32_t> evicted;
  std::vector<int32_t> blocks(3);
  ASSERT_TRUE(pool.AllocateInto(3, blocks.data(), [&](BlockId block) {
    evicted.push_back(block.value());
  }));
  EXPECT_THAT(blocks, ElementsAre(3, 2, 1));
  EXPECT_THAT(evicted, ElementsAre(3, 1));
  EXPECT_EQ(pool.num_evictions(), 2);
  EXPECT_FALSE(pool.is_cached(BlockId(3)));
}

TEST(BlockPoolTest, SqueezesHolesOutManyTimes) {
  // Touch and release move a block to the end and leave a hole.
  BlockPool pool(5);
  std::vector<int32_t> order = {0, 1, 2, 3, 4};
  for (int i = 0; i < 1000; ++i) {
    const size_t middle = static_cast<size_t>(i * 7 % 5);
    const int32_t block = order[middle];
    pool.Touch(BlockId(block));
    ASSERT_OK(Release(pool, {block}));
    order.erase(order.begin() + static_cast<ptrdiff_t>(middle));
    order.push_back(block);
    ASSERT_EQ(pool.FreeOrder(), order);
  }
}

TEST(BlockPoolTest, EmptyPool) {
  BlockPool pool(0);
  EXPECT_THAT(pool.FreeOrder(), IsEmpty());
  int32_t none;
  EXPECT_FALSE(pool.AllocateInto(1, &none));
  EXPECT_TRUE(pool.AllocateInto(0, &none));
  EXPECT_THAT(Release(pool, {0}), StatusIs(absl::StatusCode::kOutOfRange));
}

TEST(BlockPoolTest, RandomAllocationsNeverOverlap) {
  constexpr int64_t kBlocks = 128;
  std::mt19937_64 random(1);
  BlockPool pool(kBlocks);
  std::vector<std::vector<int32_t>> held;
  std::vector<bool> used(kBlocks, false);
  int64_t num_used = 0;
  for (int step = 0; step < 8192; ++step) {
    const int64_t count = 1 + static_cast<int64_t>(random() % 24);
    std::vector<int32_t> blocks(static_cast<size_t>(count));
    if (random() % 2 == 0 || held.empty()) {
      const bool fits = count <= kBlocks - num_used;
      ASSERT_EQ(pool.AllocateInto(count, blocks.data()), fits);
      if (!fits) continue;
      for (const int32_t block : blocks) {
        ASSERT_FALSE(used[static_cast<size_t>(block)]);
        used[static_cast<size_t>(block)] = true;
      }
      num_used += count;
      held.push_back(blocks);
    } else {
      std::swap(held[random() % held.size()], held.back());
      ASSERT_OK(pool.Release(held.back()));
      for (const int32_t block : held.back()) {
        used[static_cast<size_t>(block)] = false;
      }
      num_used -= static_cast<int64_t>(held.back().size());
      held.pop_back();
    }
    ASSERT_EQ(pool.num_used(), num_used);
    ASSERT_OK(pool.CheckInvariants());
  }
}

}  // namespace
}  // namespace interleave::cache
