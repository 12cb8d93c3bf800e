#include "sim/workload/arrival_law.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/random.h"
#include "base/sim_time.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

constexpr int kArrivals = 200000;

struct Gaps {
  double mean_s = 0;
  double cv = 0;
  double longest_s = 0;
};

Gaps GapsOf(ArrivalLaw& law) {
  Rng rng(1);
  std::vector<double> gaps;
  SimTime last;
  for (int i = 0; i < kArrivals; ++i) {
    const SimTime now = law.Next(rng);
    EXPECT_GE(now, last);
    gaps.push_back((now - last).seconds());
    last = now;
  }
  Gaps result;
  result.mean_s = last.seconds() / kArrivals;
  double variance = 0;
  for (const double gap : gaps) {
    variance += (gap - result.mean_s) * (gap - result.mean_s) / kArrivals;
    result.longest_s = std::max(result.longest_s, gap);
  }
  result.cv = std::sqrt(variance) / result.mean_s;
  return result;
}

TEST(PoissonArrivalsTest, RateAndVariationAreAsAsked) {
  for (const double rate : {0.01, 5.5, 1000.0}) {
    const Gaps gaps = GapsOf(*MakePoissonArrivals(rate));
    // Four standard errors of the mean: 4 / sqrt(200000) = 0.009.
    EXPECT_NEAR(gaps.mean_s * rate, 1, 0.009);
    EXPECT_NEAR(gaps.cv, 1, 0.02);
  }
}

// A clipped exponential would both miss this and raise the rate.
TEST(PoissonArrivalsTest, GapsAreNotClipped) {
  // Expected ln(200000) + 0.58 = 12.8 mean gaps.
  EXPECT_GT(GapsOf(*MakePoissonArrivals(10)).longest_s * 10, 9);
}

TEST(PoissonArrivalsTest, FirstArrivalFollowsAGap) {
  Rng rng(2);
  EXPECT_GT(MakePoissonArrivals(1)->Next(rng), SimTime::Zero());
}

TEST(GammaArrivalsTest, RateAndVariationAreAsAsked) {
  for (const double cv : {0.2, 1.0, 2.0, 4.0}) {
    const Gaps gaps = GapsOf(*MakeGammaArrivals(20, cv));
    EXPECT_NEAR(gaps.mean_s * 20, 1, 0.01 * cv);
    EXPECT_NEAR(gaps.cv / cv, 1, 0.05);
  }
}

TEST(GammaArrivalsTest, TheClockNeverLeavesItsRange) {
  Rng rng(3);
  const std::unique_ptr<ArrivalLaw> law = MakeGammaArrivals(1e-9, 50);
  SimTime last;
  for (int i = 0; i < 1000; ++i) {
    const SimTime now = law->Next(rng);
    ASSERT_GE(now, last);
    ASSERT_LT(now, SimTime::Infinity());
    last = now;
  }
}

TEST(ConstantArrivalsTest, NoErrorGrows) {
  Rng rng(4);
  const std::unique_ptr<ArrivalLaw> law = MakeConstantArrivals(3);
  SimTime last;
  for (int i = 0; i <= 3000000; ++i) last = law->Next(rng);
  EXPECT_EQ(last, SimTime::FromSeconds(1000000));
}

TEST(ConstantArrivalsTest, StartsAtZero) {
  Rng rng(4);
  const std::unique_ptr<ArrivalLaw> law = MakeConstantArrivals(4);
  EXPECT_EQ(law->Next(rng), SimTime::Zero());
  EXPECT_EQ(law->Next(rng), SimTime::FromNanos(250'000'000));
}

TEST(AllAtOnceArrivalsTest, AllAreAtZero) {
  Rng rng(5);
  const std::unique_ptr<ArrivalLaw> law = MakeAllAtOnceArrivals();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(law->Next(rng), SimTime::Zero());
}

}  // namespace
}  // namespace interleave::sim
