#include "base/sim_time.h"

#include "gtest/gtest.h"

namespace interleave {
namespace {

TEST(SimDurationTest, ConvertsUnits) {
  EXPECT_EQ(SimDuration::Micros(1.5).nanos(), 1500);
  EXPECT_EQ(SimDuration::Millis(2).nanos(), 2'000'000);
  EXPECT_EQ(SimDuration::Seconds(0.25).nanos(), 250'000'000);
  EXPECT_DOUBLE_EQ(SimDuration::Nanos(1'500'000).millis(), 1.5);
  EXPECT_DOUBLE_EQ(SimDuration::Nanos(2'500).micros(), 2.5);
}

TEST(SimDurationTest, RoundsHalvesAwayFromZero) {
  EXPECT_EQ(SimDuration::Micros(0.0005).nanos(), 1);
  EXPECT_EQ(SimDuration::Micros(-0.0005).nanos(), -1);
  EXPECT_EQ(SimDuration::Micros(0.0004).nanos(), 0);
}

TEST(SimTimeTest, AddsAndSubtracts) {
  const SimTime t = SimTime::FromSeconds(1.0);
  EXPECT_EQ((t + SimDuration::Nanos(5)).nanos(), 1'000'000'005);
  EXPECT_EQ((t - SimDuration::Nanos(5)).nanos(), 999'999'995);
  EXPECT_EQ(t - SimTime::Zero(), SimDuration::Seconds(1));
  EXPECT_LT(t, SimTime::Infinity());
}

TEST(SimTimeTest, AWeekIsExact) {
  const SimDuration week = SimDuration::Seconds(7 * 24 * 3600);
  EXPECT_EQ((SimTime::Zero() + week).nanos(), 604'800'000'000'000);
  EXPECT_EQ(SimTime::Zero() + week + SimDuration::Nanos(1) - week,
            SimTime::FromNanos(1));
}

}  // namespace
}  // namespace interleave
