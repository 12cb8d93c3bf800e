// Random programs against the model: every outcome, every table, the order of
// the free list and every invariant, after each operation.

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/status_testing.h"
#include "cache/kv_cache_manager.h"
#include "cache/kv_cache_ops.h"
#include "gtest/gtest.h"

namespace interleave::cache {
namespace {

std::vector<uint8_t> RandomBytes(uint64_t seed, size_t size) {
  std::mt19937_64 random(seed);
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() >> 56);
  return bytes;
}

struct Soak {
  KvCacheOptions options;
  int64_t num_ops;
};

void RunSoak(const Soak& soak, uint64_t seed) {
  KvCacheOps ops(soak.options);
  const std::vector<uint8_t> bytes =
      RandomBytes(seed, static_cast<size_t>(8 * soak.num_ops));
  OpReader reader(bytes);
  while (ops.num_performed() < soak.num_ops) {
    ASSERT_OK(ops.Perform(reader)) << "operation " << ops.num_performed();
    ASSERT_FALSE(reader.done());
  }
  // A soak that never ran into a limit, or always did, shows little.
  EXPECT_GT(ops.count(Outcome::kOk), soak.num_ops / 6);
  EXPECT_GT(ops.count(Outcome::kNoSpace), soak.num_ops / 100);
  EXPECT_GT(ops.count(Outcome::kInvalid), soak.num_ops / 100);
  if (soak.options.enable_prefix_caching) {
    EXPECT_GT(ops.hits(), soak.num_ops / 100);
  }
}

KvCacheOptions Options(int64_t num_blocks, int64_t block_size,
                       std::vector<CacheGroup> groups) {
  KvCacheOptions options;
  options.num_blocks = num_blocks;
  options.block_size = block_size;
  options.enable_prefix_caching = true;
  options.num_host_blocks = num_blocks / 2;
  options.groups = std::move(groups);
  return options;
}

TEST(KvCacheSoakTest, OneGroup) { RunSoak({Options(24, 3, {}), 50000}, 1); }

TEST(KvCacheSoakTest, BlockSizeOfATwosPower) {
  RunSoak({Options(20, 4, {}), 20000}, 2);
}

TEST(KvCacheSoakTest, BlocksOfOneToken) {
  RunSoak({Options(60, 1, {}), 10000}, 3);
}

TEST(KvCacheSoakTest, WithoutPrefixCaching) {
  KvCacheOptions options = Options(24, 3, {});
  options.enable_prefix_caching = false;
  RunSoak({options, 20000}, 4);
}

TEST(KvCacheSoakTest, FullAndWindow) {
  RunSoak({Options(40, 3, {{0}, {7}}), 20000}, 5);
}

TEST(KvCacheSoakTest, WindowsAndTwoFull) {
  RunSoak({Options(60, 2, {{5}, {0}, {0}, {1}}), 10000}, 6);
}

TEST(KvCacheSoakTest, OnlyAWindow) {
  RunSoak({Options(24, 3, {{8}}), 20000}, 7);
}

TEST(KvCacheSoakTest, RandomOptions) {
  for (uint64_t seed = 100; seed < 150; ++seed) {
    const std::vector<uint8_t> bytes = RandomBytes(seed, 4000);
    OpReader reader(bytes);
    KvCacheOps ops(KvCacheOps::ReadOptions(reader));
    while (!reader.done()) {
      ASSERT_OK(ops.Perform(reader))
          << "seed " << seed << ", operation " << ops.num_performed();
    }
    EXPECT_GT(ops.num_performed(), 500);
  }
}

}  // namespace
}  // namespace interleave::cache
