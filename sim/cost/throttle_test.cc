#include "sim/cost/throttle.h"

#include <cmath>

#include "absl/types/span.h"
#include "base/sim_time.h"
#include "gtest/gtest.h"
#include "sim/cost/batch_shape.h"

namespace interleave::sim {
namespace {

// 100 ms; 12% and 4% slower; memory alone up to 128 tokens.
ThrottleTable Table() { return {100'000, 0.12, 0.04, 128, 1024}; }

TEST(ThrottleTest, NothingIsThrottledWithoutATable) {
  const Throttle throttle;
  const double state = throttle.After(4096, SimDuration::Millis(1000), 0);
  EXPECT_EQ(state, 0);
  EXPECT_EQ(throttle.Slowdown(4096), 0);
  EXPECT_EQ(throttle.MeanState(4096, 1e6, state), 0);
  EXPECT_EQ(throttle.AfterIdle(SimDuration::Millis(1), state), 0);
}

// What is left of a state after so many time constants.
double Left(double x) { return 1 / (1 + x + x * x / 2 + x * x * x / 6); }

TEST(ThrottleTest, FollowsTheWork) {
  const Throttle throttle(Table());
  double state = throttle.After(2048, SimDuration::Millis(25), 0);
  EXPECT_DOUBLE_EQ(state, 1 - Left(0.25));
  state = throttle.After(1024, SimDuration::Millis(50), 0.2);
  EXPECT_DOUBLE_EQ(state, 1 - 0.8 * Left(0.5));
  state = throttle.After(64, SimDuration::Millis(100), 0.6);
  EXPECT_DOUBLE_EQ(state, 0.6 * 6 / 16);
}

TEST(ThrottleTest, IsNearlyExponential) {
  const Throttle throttle(Table());
  for (double x = 0.01; x < 20; x *= 1.2) {
    const SimDuration time = SimDuration::Millis(100 * x);
    EXPECT_NEAR(throttle.After(0, time, 1), std::exp(-x), 0.04) << x;
    EXPECT_NEAR(throttle.MeanState(0, 1e5 * x, 1), (1 - std::exp(-x)) / x, 0.04)
        << x;
  }
}

TEST(ThrottleTest, MeanStateIsThatOfTheWholeBatch) {
  const Throttle throttle(Table());
  EXPECT_EQ(throttle.MeanState(0, 5'000, 0), 0);
  EXPECT_EQ(throttle.MeanState(128, 5'000, 0), 0);
  // Of half a time constant.
  const double left = 1 / (1 + 0.25 + 0.25 / 12);
  EXPECT_DOUBLE_EQ(throttle.MeanState(2048, 50'000, 0), 1 - left);
  EXPECT_DOUBLE_EQ(throttle.MeanState(2048, 50'000, 0.5), 1 - 0.5 * left);
  EXPECT_DOUBLE_EQ(throttle.MeanState(0, 50'000, 0.5), 0.5 * left);
}

TEST(ThrottleTest, SlowdownByShares) {
  const Throttle throttle(Table());
  EXPECT_DOUBLE_EQ(throttle.Slowdown(4096), 0.12);
  EXPECT_DOUBLE_EQ(throttle.Slowdown(64), 0.04);
  EXPECT_DOUBLE_EQ(throttle.Slowdown(0), 0.04);
  // Halfway between 128 and 1,024 tokens.
  EXPECT_DOUBLE_EQ(throttle.Slowdown(576), 0.08);
}

TEST(ThrottleTest, ManyDecodesKeepACardFromRecovering) {
  ThrottleTable table = Table();
  table.memory_state = 0.2;
  EXPECT_EQ(table.StateUnder(0), 0);
  EXPECT_DOUBLE_EQ(table.StateUnder(16), 0.05);
  EXPECT_DOUBLE_EQ(table.StateUnder(64), 0.2);
  EXPECT_DOUBLE_EQ(table.StateUnder(128), 0.2);
  // Halfway between 128 and 1,024 tokens: halfway between 0.2 and 1.
  EXPECT_DOUBLE_EQ(table.StateUnder(576), 0.6);
  EXPECT_DOUBLE_EQ(table.StateUnder(1024), 1);

  const Throttle throttle(table);
  BatchShape shape;
  shape.decode.count = 16;
  EXPECT_EQ(throttle.TokensOf(shape), 16);
  EXPECT_DOUBLE_EQ(throttle.After(16, SimDuration::Millis(100), 0.1),
                   0.05 + 0.05 * Left(1));
  // 200 decodes alone move memory all the same.
  shape.decode.count = 200;
  EXPECT_EQ(throttle.TokensOf(shape), 128);
  EXPECT_DOUBLE_EQ(throttle.After(128, SimDuration::Millis(100), 0),
                   0.2 * (1 - Left(1)));
  EXPECT_DOUBLE_EQ(throttle.Slowdown(128), 0.04);
  // Beside a chunk they count as they are.
  const PrefillChunk chunk = {312, 0};
  shape.prefill = absl::MakeConstSpan(&chunk, 1);
  shape.prefill_tokens = 312;
  EXPECT_EQ(throttle.TokensOf(shape), 512);
}

TEST(ThrottleTest, RecoversWhereIdle) {
  const Throttle throttle(Table());
  EXPECT_DOUBLE_EQ(throttle.AfterIdle(SimDuration::Millis(100), 0.2),
                   0.2 * Left(1));
  EXPECT_EQ(throttle.AfterIdle(SimDuration::Seconds(1e7), 0.2), 0);
}

TEST(ThrottleTest, StaysBetweenRecoveredAndThrottled) {
  const Throttle throttle(Table());
  double state = 0;
  for (int i = 0; i < 1000; ++i) {
    state = throttle.After(8192, SimDuration::Millis(500), state);
    ASSERT_LE(state, 1);
  }
  EXPECT_NEAR(state, 1, 1e-9);
  EXPECT_NEAR(throttle.MeanState(8192, 5e5, state), 1, 1e-9);
}

}  // namespace
}  // namespace interleave::sim
