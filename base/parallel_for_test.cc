#include "base/parallel_for.h"

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave {
namespace {

using ::testing::Each;

TEST(ParallelForTest, CallsOnceForEach) {
  for (const size_t threads : {0, 1, 3, 64}) {
    std::vector<int> calls(1000, 0);
    ParallelFor(calls.size(), threads, [&](size_t i) { ++calls[i]; });
    EXPECT_THAT(calls, Each(1)) << threads;
  }
  ParallelFor(0, 4, [](size_t) { FAIL(); });
}

TEST(ParallelForTest, OneThreadIsTheCaller) {
  const std::thread::id caller = std::this_thread::get_id();
  std::vector<size_t> order;
  ParallelFor(4, 1, [&](size_t i) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    order.push_back(i);
  });
  EXPECT_THAT(order, ::testing::ElementsAre(0, 1, 2, 3));
}

TEST(ParallelForTest, RunsAtOnce) {
  // Each waits for the other: one thread alone would never end.
  std::atomic<int> here = 0;
  ParallelFor(2, 2, [&](size_t) {
    ++here;
    while (here < 2) std::this_thread::yield();
  });
  EXPECT_EQ(here, 2);
}

}  // namespace
}  // namespace interleave
