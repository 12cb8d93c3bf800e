#include "sim/metrics/distribution.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "base/sim_time.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

SimDuration Ns(int64_t ns) { return SimDuration::Nanos(ns); }

TEST(DistributionTest, EmptyIsZero) {
  const Distribution empty;
  EXPECT_EQ(empty.count(), 0);
  EXPECT_EQ(empty.QuantileNanos(0.5), 0);
  EXPECT_EQ(empty.mean_nanos(), 0);
  EXPECT_EQ(empty.max(), SimDuration::Zero());
}

TEST(DistributionTest, InterpolatesBetweenRanks) {
  Distribution d;
  for (int64_t ns : {40, 10, 30, 20}) d.Add(Ns(ns));
  // As numpy.percentile([10, 20, 30, 40], ...).
  EXPECT_DOUBLE_EQ(d.QuantileNanos(0), 10);
  EXPECT_DOUBLE_EQ(d.QuantileNanos(0.5), 25);
  EXPECT_DOUBLE_EQ(d.QuantileNanos(0.9), 37);
  EXPECT_DOUBLE_EQ(d.QuantileNanos(1), 40);
  EXPECT_DOUBLE_EQ(d.mean_nanos(), 25);
}

TEST(DistributionTest, AWeightIsThatManySamples) {
  Distribution weighted;
  weighted.Add(Ns(10), 3);
  weighted.Add(Ns(50), 2);
  Distribution single;
  for (int64_t ns : {10, 10, 10, 50, 50}) single.Add(Ns(ns));
  for (double q : {0.0, 0.25, 0.5, 0.6, 0.75, 1.0}) {
    EXPECT_DOUBLE_EQ(weighted.QuantileNanos(q), single.QuantileNanos(q)) << q;
  }
  EXPECT_EQ(weighted.count(), 5);
  EXPECT_DOUBLE_EQ(weighted.mean_nanos(), 26);
}

TEST(DistributionTest, AddingAfterAQuantileCounts) {
  Distribution d;
  d.Add(Ns(30));
  EXPECT_DOUBLE_EQ(d.QuantileNanos(0.5), 30);
  d.Add(Ns(10));
  EXPECT_DOUBLE_EQ(d.QuantileNanos(0), 10);
}

TEST(DistributionTest, StaysWithinItsErrorPastTheExactSamples) {
  std::mt19937_64 random(3);
  Distribution d;
  std::vector<double> exact;
  double sum = 0;
  for (size_t i = 0; i < 3 * Distribution::kExactSamples; ++i) {
    // Over nine decades.
    const int64_t ns = static_cast<int64_t>(random() >> (20 + random() % 30));
    d.Add(Ns(ns));
    exact.push_back(static_cast<double>(ns));
    sum += static_cast<double>(ns);
  }
  std::sort(exact.begin(), exact.end());
  for (double q : {0.01, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999}) {
    const double expected =
        exact[static_cast<size_t>(q * static_cast<double>(exact.size() - 1))];
    EXPECT_NEAR(d.QuantileNanos(q), expected, expected * 0.0006) << q;
  }
  EXPECT_DOUBLE_EQ(d.QuantileNanos(1), exact.back());
  EXPECT_NEAR(d.mean_nanos(), sum / static_cast<double>(exact.size()),
              1e-9 * sum);
}

TEST(DistributionTest, SmallValuesStayExactInBuckets) {
  Distribution d;
  for (size_t i = 0; i <= 2 * Distribution::kExactSamples; ++i) {
    d.Add(Ns(static_cast<int64_t>(i % 1000)));
  }
  EXPECT_NEAR(d.QuantileNanos(0.5), 500, 1);
  EXPECT_NEAR(d.QuantileNanos(0.25), 250, 1);
}

}  // namespace
}  // namespace interleave::sim
