#include "sim/profiling/throttle_fit.h"

#include <cmath>
#include <vector>

#include "base/random.h"
#include "base/sim_time.h"
#include "gtest/gtest.h"
#include "sim/cost/throttle.h"

namespace interleave::sim {
namespace {

// Rows of prompts, of 2.5 ms and more, between decodes of 5 ms, on a card that
// follows `table`; each time is off by up to `noise` of it.
std::vector<ThrottleSample> Series(const ThrottleTable& table, double noise) {
  Rng rng(7);
  const Throttle throttle(table);
  double state = 0;
  std::vector<ThrottleSample> series;
  const auto run = [&](int64_t tokens, double us) {
    us *= (1 +
           throttle.Slowdown(tokens) * throttle.MeanState(tokens, us, state)) *
          (1 + noise * (2 * rng.Uniform01() - 1));
    series.push_back({tokens, us});
    state = throttle.After(tokens, SimDuration::Micros(us), state);
  };
  for (int round = 0; round < 24; ++round) {
    const int64_t tokens = 256 << (round % 3);
    for (int64_t i = rng.UniformInt(1, 8192 / tokens); i > 0; --i) {
      run(tokens, 2'500 + 22 * static_cast<double>(tokens));
    }
    for (int64_t i = rng.UniformInt(2, 40); i > 0; --i) run(32, 5'000);
  }
  return series;
}

TEST(FitThrottleTest, FindsWhatACardFollows) {
  const ThrottleTable truth = {47'000, 0.126, 0.083, 128, 448, {}};
  const ThrottleTable exact = FitThrottle(Series(truth, 0), 128);
  EXPECT_NEAR(exact.time_constant_us, 47'000, 0.016 * 47'000);
  EXPECT_NEAR(exact.compute_slowdown, 0.126, 0.001);
  EXPECT_NEAR(exact.memory_slowdown, 0.083, 0.001);
  EXPECT_EQ(exact.memory_tokens, 128);
  EXPECT_EQ(exact.compute_tokens, 448);
  const ThrottleTable noisy = FitThrottle(Series(truth, 0.01), 128);
  EXPECT_NEAR(noisy.time_constant_us, 47'000, 0.1 * 47'000);
  EXPECT_NEAR(noisy.compute_slowdown, 0.126, 0.01);
  EXPECT_NEAR(noisy.memory_slowdown, 0.083, 0.01);
  EXPECT_NEAR(noisy.compute_tokens, 448, 128);
}

TEST(FitThrottleTest, LeavesOutHiccups) {
  const ThrottleTable truth = {47'000, 0.126, 0.083, 128, 448, {}};
  std::vector<ThrottleSample> series = Series(truth, 0);
  for (size_t i = 20; i < series.size(); i += 100) series[i].device_us *= 20;
  const ThrottleTable fit = FitThrottle(series, 128);
  EXPECT_NEAR(fit.compute_slowdown, 0.126, 0.01);
  EXPECT_NEAR(fit.memory_slowdown, 0.083, 0.01);
}

TEST(FitThrottleTest, SeesNoneWhereThereIsNone) {
  EXPECT_EQ(FitThrottle(Series({}, 0.003), 128).time_constant_us, 0);
}

TEST(FitThrottleTest, AsksForEnough) {
  std::vector<ThrottleSample> series =
      Series({47'000, 0.2, 0.2, 128, 448, {}}, 0);
  series.resize(7);
  EXPECT_EQ(FitThrottle(series, 128).time_constant_us, 0);
  EXPECT_EQ(FitThrottle({}, 128).time_constant_us, 0);
}

}  // namespace
}  // namespace interleave::sim
