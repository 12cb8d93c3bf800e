#include "cache/prefix_index.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/status_testing.h"
#include "cache/block_hash.h"
#include "cache/block_pool.h"
#include "gtest/gtest.h"

namespace interleave::cache {
namespace {

using Identity = PrefixIndex::Identity;
using Tokens = std::vector<int32_t>;

constexpr Identity kRoot = PrefixIndex::kRoot;

TEST(BlockHasherTest, IsTheSameInEveryRun) {
  const BlockHasher hasher;
  const Tokens tokens = {1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(hasher.Root({}), BlockHasher().Root({}));
  EXPECT_EQ(hasher.Next(1, tokens), BlockHasher().Next(1, tokens));
  EXPECT_NE(hasher.Next(1, tokens), BlockHasher(99).Next(1, tokens));
}

TEST(BlockHasherTest, DependsOnParentKeysAndEachToken) {
  const BlockHasher hasher;
  std::set<uint64_t> seen;
  for (size_t length = 0; length < 20; ++length) {
    Tokens tokens(length, 5);
    EXPECT_TRUE(seen.insert(hasher.Next(1, tokens)).second);
    EXPECT_TRUE(seen.insert(hasher.Next(2, tokens)).second);
    for (int32_t& token : tokens) {
      token = 6;
      EXPECT_TRUE(seen.insert(hasher.Next(1, tokens)).second);
      token = 5;
    }
  }
  for (const std::vector<int64_t>& keys : std::vector<std::vector<int64_t>>{
           {}, {0}, {1}, {0, 0}, {0, 1}, {1, 0}}) {
    EXPECT_TRUE(seen.insert(hasher.Root(keys)).second);
  }
}

TEST(BlockHasherTest, PolynomialCollisionsAreNone) {
  // Under the hash sum(31^(n-i) token[i]) these pairs collide.
  const BlockHasher hasher;
  Tokens tokens(16, 1000);
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    Tokens other = tokens;
    other[i] += 1;
    other[i + 1] -= 31;
    EXPECT_NE(hasher.Next(0, tokens), hasher.Next(0, other));
  }
}

TEST(BlockHasherTest, LowBitsSpreadOverSimilarBlocks) {
  // 65,536 blocks that differ in one small token, into as many buckets: if the
  // low bits were uniform, 63.2% of the buckets would be hit.
  const BlockHasher hasher;
  std::set<uint32_t> buckets;
  Tokens tokens(16, 7);
  for (int32_t i = 0; i < 65536; ++i) {
    tokens[15] = i;
    buckets.insert(static_cast<uint32_t>(hasher.Next(3, tokens)) & 0xffff);
  }
  EXPECT_NEAR(static_cast<double>(buckets.size()) / 65536, 0.632, 0.01);
}

TEST(PrefixIndexTest, FindsBlocksByPrefix) {
  PrefixIndex index(8, 2);
  const Identity a = index.Add(BlockId(3), 10, kRoot, Tokens{1, 2}, {});
  const Identity b = index.Add(BlockId(5), 11, a, Tokens{3, 4}, {});
  EXPECT_NE(a, b);
  EXPECT_EQ(index.size(), 2);
  EXPECT_EQ(index.Find(10, kRoot, Tokens{1, 2}, {}).block, 3);
  EXPECT_EQ(index.Find(10, kRoot, Tokens{1, 2}, {}).identity, a);
  EXPECT_EQ(index.Find(11, a, Tokens{3, 4}, {}).block, 5);
  EXPECT_EQ(index.FindIdentity(11, a, b), 5);
  EXPECT_EQ(index.FindIdentity(11, a, b + 1), kNullBlock);
  EXPECT_FALSE(index.Find(12, a, Tokens{3, 4}, {}).found());
  EXPECT_FALSE(index.MayContain(12));
  EXPECT_OK(index.CheckInvariants());
}

TEST(PrefixIndexTest, EqualHashesAreNotTrusted) {
  constexpr uint64_t kHash = 42;
  PrefixIndex index(8, 2);
  const Identity a = index.Add(BlockId(0), kHash, kRoot, Tokens{1, 2}, {});
  // Same tokens after another prefix, other tokens after the same one, other
  // keys: all under one hash.
  const Identity b = index.Add(BlockId(1), kHash, a, Tokens{1, 2}, {});
  const Identity c = index.Add(BlockId(2), kHash, kRoot, Tokens{1, 3}, {});
  const Identity d = index.Add(BlockId(3), kHash, kRoot, Tokens{1, 2}, {7});
  EXPECT_EQ((std::set<Identity>{a, b, c, d}).size(), 4);
  EXPECT_EQ(index.Find(kHash, kRoot, Tokens{1, 2}, {}).block, 0);
  EXPECT_EQ(index.Find(kHash, a, Tokens{1, 2}, {}).block, 1);
  EXPECT_EQ(index.Find(kHash, kRoot, Tokens{1, 3}, {}).block, 2);
  EXPECT_EQ(index.Find(kHash, kRoot, Tokens{1, 2}, {7}).block, 3);
  EXPECT_FALSE(index.Find(kHash, b, Tokens{1, 2}, {}).found());
  EXPECT_FALSE(index.Find(kHash, kRoot, Tokens{2, 1}, {}).found());
  EXPECT_FALSE(index.Find(kHash, kRoot, Tokens{1, 2}, {8}).found());
  EXPECT_FALSE(index.Find(kHash, kRoot, Tokens{1, 2}, {7, 7}).found());
  EXPECT_OK(index.CheckInvariants());
}

TEST(PrefixIndexTest, SeveralBlocksWithOneContent) {
  PrefixIndex index(8, 1);
  const Identity a = index.Add(BlockId(4), 9, kRoot, Tokens{1}, {});
  EXPECT_EQ(index.Add(BlockId(2), 9, kRoot, Tokens{1}, {}), a);
  EXPECT_EQ(index.Add(BlockId(6), 9, kRoot, Tokens{1}, {}), a);
  EXPECT_EQ(index.size(), 3);
  EXPECT_EQ(index.Find(9, kRoot, Tokens{1}, {}).block, 4);
  index.Erase(BlockId(2));
  EXPECT_OK(index.CheckInvariants());
  EXPECT_EQ(index.Find(9, kRoot, Tokens{1}, {}).block, 4);
  index.Erase(BlockId(4));
  EXPECT_OK(index.CheckInvariants());
  EXPECT_EQ(index.Find(9, kRoot, Tokens{1}, {}).block, 6);
  EXPECT_EQ(index.Find(9, kRoot, Tokens{1}, {}).identity, a);
  index.Erase(BlockId(6));
  EXPECT_FALSE(index.Find(9, kRoot, Tokens{1}, {}).found());
  EXPECT_EQ(index.size(), 0);
  // An identity is never used again.
  EXPECT_NE(index.Add(BlockId(6), 9, kRoot, Tokens{1}, {}), a);
}

TEST(PrefixIndexTest, GroupsAreApart) {
  PrefixIndex index(8, 1);
  const Identity a = index.Add(BlockId(0), 9, kRoot, Tokens{1}, {});
  index.AddToGroup(BlockId(1), a, 1);
  index.AddToGroup(BlockId(2), a, 2);
  EXPECT_EQ(index.FindInGroup(a, 1), 1);
  EXPECT_EQ(index.FindInGroup(a, 2), 2);
  EXPECT_EQ(index.FindInGroup(a, 3), kNullBlock);
  EXPECT_EQ(index.FindInGroup(a + 1, 1), kNullBlock);
  EXPECT_EQ(index.Find(9, kRoot, Tokens{1}, {}).block, 0);
  index.Erase(BlockId(1));
  EXPECT_EQ(index.FindInGroup(a, 1), kNullBlock);
  EXPECT_OK(index.CheckInvariants());
}

TEST(PrefixIndexTest, VersionTellsOfChanges) {
  PrefixIndex index(2, 1);
  const int64_t before = index.version();
  index.Add(BlockId(0), 9, kRoot, Tokens{1}, {});
  const int64_t added = index.version();
  EXPECT_GT(added, before);
  index.Find(9, kRoot, Tokens{1}, {});
  EXPECT_EQ(index.version(), added);
  index.Erase(BlockId(0));
  EXPECT_GT(index.version(), added);
}

TEST(PrefixIndexTest, ClearForgetsAll) {
  PrefixIndex index(4, 1);
  index.Add(BlockId(0), 9, kRoot, Tokens{1}, {});
  index.Add(BlockId(1), 9, kRoot, Tokens{1}, {});
  index.Clear();
  EXPECT_EQ(index.size(), 0);
  EXPECT_FALSE(index.Contains(BlockId(0)));
  EXPECT_FALSE(index.Find(9, kRoot, Tokens{1}, {}).found());
  EXPECT_OK(index.CheckInvariants());
}

TEST(PrefixIndexTest, RandomChangesAgreeWithAMap) {
  // Few hashes, so that probing runs long and wraps around.
  constexpr int32_t kBlocks = 64;
  std::mt19937_64 random(3);
  PrefixIndex index(kBlocks, 1);
  using Content = std::pair<uint64_t, int32_t>;
  std::map<Content, std::vector<int32_t>> expected;
  std::map<int32_t, Content> contents;
  for (int step = 0; step < 20000; ++step) {
    const int32_t block = static_cast<int32_t>(random() % kBlocks);
    if (const auto it = contents.find(block); it != contents.end()) {
      std::vector<int32_t>& blocks = expected[it->second];
      blocks.erase(std::find(blocks.begin(), blocks.end(), block));
      contents.erase(it);
      index.Erase(BlockId(block));
    } else {
      const Content content(random() % 8 + 120,
                            static_cast<int32_t>(random() % 8));
      index.Add(BlockId(block), content.first, kRoot, Tokens{content.second},
                {});
      expected[content].push_back(block);
      contents[block] = content;
    }
    for (uint64_t hash = 120; hash < 128; ++hash) {
      for (int32_t token = 0; token < 8; ++token) {
        const std::vector<int32_t>& blocks = expected[{hash, token}];
        ASSERT_EQ(index.Find(hash, kRoot, Tokens{token}, {}).block,
                  blocks.empty() ? kNullBlock : blocks.front());
      }
    }
    ASSERT_OK(index.CheckInvariants());
  }
}

}  // namespace
}  // namespace interleave::cache
