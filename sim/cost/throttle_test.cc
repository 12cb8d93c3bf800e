#include "sim/cost/throttle.h"

#include "base/sim_time.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

// 100 ms; 12% and 4% slower; memory alone up to 128 tokens.
constexpr ThrottleTable kTable = {100'000, 0.12, 0.04, 128, 1024};

TEST(ThrottleTest, NothingIsThrottledWithoutATable) {
  Throttle throttle;
  throttle.Run(4096, SimDuration::Millis(1000));
  EXPECT_EQ(throttle.state(), 0);
  EXPECT_EQ(throttle.Slowdown(4096), 1);
}

TEST(ThrottleTest, FollowsTheWork) {
  Throttle throttle(kTable);
  EXPECT_EQ(throttle.Slowdown(2048), 1);
  // (0 + 1 x 0.25) / 1.25.
  throttle.Run(2048, SimDuration::Millis(25));
  EXPECT_DOUBLE_EQ(throttle.state(), 0.2);
  EXPECT_DOUBLE_EQ(throttle.Slowdown(1024), 1.024);
  EXPECT_DOUBLE_EQ(throttle.Slowdown(64), 1.008);
  // Halfway between 128 and 1,024 tokens.
  EXPECT_DOUBLE_EQ(throttle.Slowdown(576), 1.016);
  // (0.2 + 0.5) / 1.5, then 0.7 / 1.5 / 2.
  throttle.Run(1024, SimDuration::Millis(50));
  EXPECT_DOUBLE_EQ(throttle.state(), 0.7 / 1.5);
  throttle.Run(64, SimDuration::Millis(100));
  EXPECT_DOUBLE_EQ(throttle.state(), 0.35 / 1.5);
}

TEST(ThrottleTest, RecoversWhereIdle) {
  Throttle throttle(kTable);
  throttle.Run(2048, SimDuration::Millis(25));
  throttle.Idle(SimDuration::Millis(100));
  EXPECT_DOUBLE_EQ(throttle.state(), 0.1);
  throttle.Idle(SimDuration::Seconds(1e7));
  EXPECT_EQ(throttle.state(), 0);
  EXPECT_EQ(throttle.Slowdown(2048), 1);
}

TEST(ThrottleTest, StaysBetweenRecoveredAndThrottled) {
  Throttle throttle(kTable);
  for (int i = 0; i < 1000; ++i) {
    throttle.Run(8192, SimDuration::Millis(500));
    ASSERT_LE(throttle.state(), 1);
  }
  EXPECT_NEAR(throttle.Slowdown(8192), 1.12, 1e-9);
}

}  // namespace
}  // namespace interleave::sim
