#include "sim/cost/throttle.h"

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

TEST(ThrottleTest, FollowsTheWork) {
  const Throttle throttle(Table());
  // (0 + 1 x 0.25) / 1.25.
  double state = throttle.After(2048, SimDuration::Millis(25), 0);
  EXPECT_DOUBLE_EQ(state, 0.2);
  // (0.2 + 0.5) / 1.5, then 0.7 / 1.5 / 2.
  state = throttle.After(1024, SimDuration::Millis(50), state);
  EXPECT_DOUBLE_EQ(state, 0.7 / 1.5);
  state = throttle.After(64, SimDuration::Millis(100), state);
  EXPECT_DOUBLE_EQ(state, 0.35 / 1.5);
}

TEST(ThrottleTest, MeanStateIsThatAfterHalfTheBatch) {
  const Throttle throttle(Table());
  EXPECT_EQ(throttle.MeanState(0, 5'000, 0), 0);
  EXPECT_EQ(throttle.MeanState(128, 5'000, 0), 0);
  // (0 + 0.25) / 1.25, (0.5 + 0.25) / 1.25, 0.5 / 1.25.
  EXPECT_DOUBLE_EQ(throttle.MeanState(2048, 50'000, 0), 0.2);
  EXPECT_DOUBLE_EQ(throttle.MeanState(2048, 50'000, 0.5), 0.6);
  EXPECT_DOUBLE_EQ(throttle.MeanState(0, 50'000, 0.5), 0.4);
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
  // (0.1 + 0.05) / 2.
  EXPECT_DOUBLE_EQ(throttle.After(16, SimDuration::Millis(100), 0.1), 0.075);
  // 200 decodes alone move memory all the same.
  shape.decode.count = 200;
  EXPECT_EQ(throttle.TokensOf(shape), 128);
  EXPECT_DOUBLE_EQ(throttle.After(128, SimDuration::Millis(100), 0), 0.1);
  EXPECT_DOUBLE_EQ(throttle.Slowdown(128), 0.04);
  // Beside a chunk they count as they are.
  const PrefillChunk chunk = {312, 0};
  shape.prefill = absl::MakeConstSpan(&chunk, 1);
  shape.prefill_tokens = 312;
  EXPECT_EQ(throttle.TokensOf(shape), 512);
}

TEST(ThrottleTest, RecoversWhereIdle) {
  const Throttle throttle(Table());
  EXPECT_DOUBLE_EQ(throttle.AfterIdle(SimDuration::Millis(100), 0.2), 0.1);
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
