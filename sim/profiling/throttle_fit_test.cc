#include "sim/profiling/throttle_fit.h"

#include <cmath>
#include <vector>

#include "base/random.h"
#include "base/sim_time.h"
#include "gtest/gtest.h"
#include "sim/cost/throttle.h"

namespace interleave::sim {
namespace {

// Rows of prompts of 25 ms between decodes of 5 ms, on a card that follows
// `table`; each time is off by up to `noise` of it.
std::vector<ThrottleSample> Series(const ThrottleTable& table, double noise) {
  Rng rng(7);
  Throttle throttle(table);
  std::vector<ThrottleSample> series;
  const auto run = [&](int64_t tokens, double us) {
    us *= throttle.Slowdown(tokens) * (1 + noise * (2 * rng.Uniform01() - 1));
    series.push_back({tokens, us});
    throttle.Run(tokens, SimDuration::Micros(us));
  };
  for (int round = 0; round < 24; ++round) {
    for (int64_t i = rng.UniformInt(1, 8); i > 0; --i) run(1024, 25'000);
    for (int64_t i = rng.UniformInt(2, 40); i > 0; --i) run(32, 5'000);
  }
  return series;
}

TEST(FitThrottleTest, FindsWhatACardFollows) {
  const ThrottleTable truth = {47'000, 0.126, 0.083, 128, 1024};
  const ThrottleTable exact = FitThrottle(Series(truth, 0), 128, 1024);
  EXPECT_NEAR(exact.time_constant_us, 47'000, 0.011 * 47'000);
  EXPECT_NEAR(exact.compute_slowdown, 0.126, 0.001);
  EXPECT_NEAR(exact.memory_slowdown, 0.083, 0.001);
  const ThrottleTable noisy = FitThrottle(Series(truth, 0.01), 128, 1024);
  EXPECT_NEAR(noisy.time_constant_us, 47'000, 0.15 * 47'000);
  EXPECT_NEAR(noisy.compute_slowdown, 0.126, 0.01);
  EXPECT_NEAR(noisy.memory_slowdown, 0.083, 0.01);
  EXPECT_EQ(noisy.memory_tokens, 128);
  EXPECT_EQ(noisy.compute_tokens, 1024);
}

TEST(FitThrottleTest, LeavesOutHiccups) {
  const ThrottleTable truth = {47'000, 0.126, 0.083, 128, 1024};
  std::vector<ThrottleSample> series = Series(truth, 0);
  for (size_t i = 20; i < series.size(); i += 50) series[i].device_us *= 3;
  const ThrottleTable fit = FitThrottle(series, 128, 1024);
  EXPECT_NEAR(fit.compute_slowdown, 0.126, 0.02);
  EXPECT_NEAR(fit.memory_slowdown, 0.083, 0.02);
}

TEST(FitThrottleTest, SeesNoneWhereThereIsNone) {
  EXPECT_EQ(FitThrottle(Series({}, 0.003), 128, 1024), ThrottleTable());
}

TEST(FitThrottleTest, AsksForEnough) {
  std::vector<ThrottleSample> series = Series({47'000, 0.2, 0.2, 128, 1024}, 0);
  series.resize(7);
  EXPECT_EQ(FitThrottle(series, 128, 1024), ThrottleTable());
  EXPECT_EQ(FitThrottle({}, 128, 1024), ThrottleTable());
}

}  // namespace
}  // namespace interleave::sim
