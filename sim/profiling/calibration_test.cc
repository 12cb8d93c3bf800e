#include "sim/profiling/calibration.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "base/sim_time.h"
#include "gtest/gtest.h"
#include "sim/cost/throttle.h"

namespace interleave::sim {
namespace {

// What the tables of a fake card are off by.
double TrueLevel(int64_t tokens, int64_t decodes) {
  if (tokens == 0) return decodes <= 32 ? 1.02 : 0.97;
  if (tokens == 1024) return 0.9;
  return 0.95;
}

// Batches of all sizes under changing load, on a card that follows `table`;
// each time is off by up to `noise` of it.
std::vector<SeriesSample> Series(const ThrottleTable& table, double noise,
                                 int count) {
  Rng rng(7);
  const Throttle throttle(table);
  double state = 0;
  double load = 0;
  std::vector<SeriesSample> series;
  for (int i = 0; i < count; ++i) {
    if (i % 40 == 0) load = rng.Uniform01();
    SeriesSample s;
    if (rng.Bernoulli(load)) {
      s.tokens_beside_prefill =
          rng.Bernoulli(0.3) ? 1024 : rng.UniformInt(2, 2048);
      s.table_us = 3'500 + 20 * static_cast<double>(s.tokens_beside_prefill);
      s.decode_attention_us = 0.6 * rng.Uniform01() * s.table_us;
    } else {
      s.decodes = rng.UniformInt(1, 256);
      s.table_us = 4'000 + 25 * static_cast<double>(s.decodes);
    }
    const int64_t tokens = s.tokens_beside_prefill;
    const double us = s.table_us * TrueLevel(tokens, s.decodes);
    const double moves_memory = s.decode_attention_us / s.table_us;
    const double slowdown = moves_memory * throttle.Slowdown(0) +
                            (1 - moves_memory) * throttle.Slowdown(tokens);
    const int64_t leads = throttle.TokensOf(tokens, s.decodes);
    s.device_us = us * (1 + slowdown * throttle.MeanState(leads, us, state));
    s.device_us *= 1 + noise * (2 * rng.Uniform01() - 1);
    state = throttle.After(leads, SimDuration::Micros(s.device_us), state);
    series.push_back(s);
  }
  return series;
}

void ExpectLevels(const Calibration& calibration, double within) {
  EXPECT_NEAR(calibration.with_prefill.At(1024), 0.9, within);
  for (const int64_t tokens : {200, 700, 1023, 1025, 2000}) {
    EXPECT_NEAR(calibration.with_prefill.At(tokens), 0.95, within) << tokens;
  }
  for (const int64_t decodes : {5, 20}) {
    EXPECT_NEAR(calibration.decodes_alone.At(decodes), 1.02, within);
  }
  for (const int64_t decodes : {60, 200, 300}) {
    EXPECT_NEAR(calibration.decodes_alone.At(decodes), 0.97, within);
  }
}

TEST(CalibrateTest, FindsWhatACardFollows) {
  const ThrottleTable truth = {30'000, 0.28, 0.09, 128, 512};
  const Calibration exact = Calibrate(Series(truth, 0, 12000), 128);
  EXPECT_NEAR(exact.throttle.time_constant_us, 30'000, 0.06 * 30'000);
  EXPECT_NEAR(exact.throttle.compute_slowdown, 0.28, 0.01);
  EXPECT_NEAR(exact.throttle.memory_slowdown, 0.09, 0.01);
  EXPECT_EQ(exact.throttle.memory_tokens, 128);
  EXPECT_EQ(exact.throttle.compute_tokens, 512);
  ExpectLevels(exact, 0.006);
  const Calibration noisy = Calibrate(Series(truth, 0.08, 12000), 128);
  EXPECT_NEAR(noisy.throttle.time_constant_us, 30'000, 0.3 * 30'000);
  EXPECT_NEAR(noisy.throttle.compute_slowdown, 0.28, 0.03);
  EXPECT_NEAR(noisy.throttle.memory_slowdown, 0.09, 0.02);
  ExpectLevels(noisy, 0.025);
}

TEST(CalibrateTest, FindsTheStateUnderDecodes) {
  const ThrottleTable truth = {30'000, 0.28, 0.09, 128, 512, 0.3};
  const Calibration exact = Calibrate(Series(truth, 0, 12000), 128);
  // A step less, and levels a little higher, are nearly the same.
  EXPECT_NEAR(exact.throttle.memory_state, 0.3, 0.051);
  EXPECT_NEAR(exact.throttle.compute_slowdown, 0.28, 0.01);
  EXPECT_NEAR(exact.throttle.memory_slowdown, 0.09, 0.01);
  ExpectLevels(exact, 0.009);
  const Calibration noisy = Calibrate(Series(truth, 0.04, 12000), 128);
  EXPECT_NEAR(noisy.throttle.memory_state, 0.3, 0.1);
  EXPECT_EQ(Calibrate(Series({30'000, 0.28, 0.09, 128, 512}, 0, 12000), 128)
                .throttle.memory_state,
            0);
}

// Decodes of one size are at one state, which their level says.
TEST(CalibrateTest, DecodesOfOneSizeDoNotTellTheirState) {
  std::vector<SeriesSample> series =
      Series({30'000, 0.28, 0.09, 128, 512, 0.3}, 0, 12000);
  std::erase_if(series, [](const SeriesSample& s) {
    return s.tokens_beside_prefill == 0 && s.decodes != 64;
  });
  EXPECT_EQ(Calibrate(series, 128).throttle.memory_state, 0);
}

TEST(CalibrateTest, SeesNoThrottlingWhereThereIsNone) {
  const Calibration fit = Calibrate(Series({}, 0, 12000), 128);
  EXPECT_EQ(fit.throttle.time_constant_us, 0);
  ExpectLevels(fit, 0.001);
}

TEST(CalibrateTest, LevelsAlone) {
  const Calibration fit = CalibrateLevels(Series({}, 0.08, 12000));
  EXPECT_EQ(fit.throttle.time_constant_us, 0);
  ExpectLevels(fit, 0.025);
  // What throttles a card goes into the levels.
  const Calibration hot =
      CalibrateLevels(Series({30'000, 0.28, 0.09, 128, 512}, 0, 12000));
  EXPECT_EQ(hot.throttle.time_constant_us, 0);
  EXPECT_GT(hot.with_prefill.At(1024), 1);
}

// Sixteen prompts of about a size are enough to tell it from the next; one is
// not.
TEST(CalibrateTest, FewBatchesTellASize) {
  std::vector<SeriesSample> series;
  const auto add = [&series](int64_t first, int count, double level) {
    for (int i = 0; i < count; ++i) {
      SeriesSample s;
      s.tokens_beside_prefill = first + i;
      s.table_us = 5'000;
      s.device_us = level * s.table_us;
      series.push_back(s);
    }
  };
  add(100, 16, 1.01);
  add(200, 16, 1.08);
  add(300, 1, 2);
  add(400, 31, 0.97);
  const Calibration fit = CalibrateLevels(series);
  EXPECT_DOUBLE_EQ(fit.with_prefill.At(1), 1.01);
  EXPECT_DOUBLE_EQ(fit.with_prefill.At(115), 1.01);
  EXPECT_DOUBLE_EQ(fit.with_prefill.At(116), 1.08);
  EXPECT_DOUBLE_EQ(fit.with_prefill.At(215), 1.08);
  // The odd one is in a bin with fifteen more.
  EXPECT_DOUBLE_EQ(fit.with_prefill.At(300), (2 + 15 * 0.97) / 16);
  EXPECT_DOUBLE_EQ(fit.with_prefill.At(430), 0.97);
}

TEST(CalibrateTest, LeavesOutHiccups) {
  const ThrottleTable truth = {30'000, 0.28, 0.09, 128, 512};
  std::vector<SeriesSample> series = Series(truth, 0, 12000);
  for (size_t i = 20; i < series.size(); i += 100) series[i].device_us *= 20;
  // The card's state is not what it was, but nothing is off by 19 / 100.
  ExpectLevels(Calibrate(series, 128), 0.05);
}

TEST(CalibrateTest, LeavesOutWhatTheTablesDoNotHold) {
  const ThrottleTable truth = {30'000, 0.28, 0.09, 128, 512};
  std::vector<SeriesSample> series = Series(truth, 0, 12000);
  for (size_t i = 20; i < series.size(); i += 10) series[i].table_us = 0;
  const Calibration fit = Calibrate(series, 128);
  EXPECT_NEAR(fit.throttle.compute_slowdown, 0.28, 0.01);
  ExpectLevels(fit, 0.009);
}

TEST(CalibrateTest, KnowsNothingOfNothing) {
  const Calibration fit = Calibrate({}, 128);
  EXPECT_EQ(fit.throttle.time_constant_us, 0);
  EXPECT_EQ(fit.with_prefill.At(512), 1);
  EXPECT_EQ(fit.decodes_alone.At(8), 1);
}

}  // namespace
}  // namespace interleave::sim
