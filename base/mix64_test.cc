#include "base/mix64.h"

#include <cstdint>
#include <set>

#include "gtest/gtest.h"

namespace interleave {
namespace {

TEST(Mix64Test, IsSplitMix64) {
  // The first three numbers of SplitMix64 seeded with 1234567, as its authors'
  // generator makes them.
  EXPECT_EQ(Mix64(1234567 + kMix64Step), 6457827717110365317u);
  EXPECT_EQ(Mix64(1234567 + 2 * kMix64Step), 3203168211198807973u);
  EXPECT_EQ(Mix64(1234567 + 3 * kMix64Step), 9817491932198370423u);
  EXPECT_EQ(Mix64(0), 0u);
}

TEST(Mix64Test, TakesApartWhatLiesClose) {
  std::set<uint64_t> high;
  for (uint64_t x = 1; x <= 1000; ++x) high.insert(Mix64(x) >> 40);
  // 1,000 draws of 2^24: a pair of equals once in 34 times.
  EXPECT_GE(high.size(), 998u);
}

}  // namespace
}  // namespace interleave
