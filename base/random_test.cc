#include "base/random.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "gtest/gtest.h"

namespace interleave {
namespace {

constexpr int kDraws = 400000;

struct Moments {
  double mean = 0;
  double stddev = 0;
};

template <typename Draw>
Moments MomentsOf(Draw draw) {
  double sum = 0;
  double sum_of_squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = draw();
    sum += x;
    sum_of_squares += x * x;
  }
  const double mean = sum / kDraws;
  return {mean, std::sqrt(sum_of_squares / kDraws - mean * mean)};
}

// The largest distance between the empirical distribution function of `draw`
// and `cdf` (Kolmogorov and Smirnov), times sqrt(n): above 1.95 with
// probability 0.001 when they agree.
template <typename Draw, typename Cdf>
double KolmogorovSmirnov(Draw draw, Cdf cdf) {
  std::vector<double> x(kDraws);
  for (double& value : x) value = draw();
  std::sort(x.begin(), x.end());
  double distance = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double p = cdf(x[i]);
    distance = std::max({distance, p - static_cast<double>(i) / kDraws,
                         static_cast<double>(i + 1) / kDraws - p});
  }
  return distance * std::sqrt(static_cast<double>(kDraws));
}

// From an independent implementation of the published algorithms.
TEST(RngTest, GoldenBits) {
  Rng rng(42);
  EXPECT_EQ(rng.Next(), 0xd0764d4f4476689f);
  EXPECT_EQ(rng.Next(), 0x519e4174576f3791);
  EXPECT_EQ(rng.Next(), 0xfbe07cfb0c24ed8c);
  EXPECT_EQ(rng.Next(), 0xb37d9f600cd835b8);
  Rng zero(0);
  EXPECT_EQ(zero.Next(), 0x53175d61490b23df);
  EXPECT_EQ(zero.Next(), 0x61da6f3dc380d507);
  Rng fork = Rng(42).Fork("arrivals");
  EXPECT_EQ(fork.Next(), 0x4f0168eee5d70c8d);
  EXPECT_EQ(fork.Next(), 0xa6f3b081dc44bad3);
}

// A change here changes every simulation with a generated workload.
TEST(RngTest, GoldenDraws) {
  Rng rng(42);
  EXPECT_EQ(rng.Uniform01(), 0x1.a0ec9a9e88ecdp-1);
  EXPECT_EQ(rng.UniformInt(-10, 1000000), 318814);
  EXPECT_EQ(rng.Exponential(2.0), 0x1.0a06a9fa9eb83p-5);
  EXPECT_EQ(rng.Normal(1, 3), 0x1.4aa003ab93a67p+1);
  EXPECT_EQ(rng.LogNormal(6, 0.5), 0x1.2fbd8dc5c33b9p+9);
  EXPECT_EQ(rng.Gamma(4, 0.25), 0x1.07064d64cf7c7p+0);
  EXPECT_EQ(rng.Gamma(0.25, 4), 0x1.72516fb224e1fp-3);
  const ZipfDistribution zipf(1000, 1.1);
  EXPECT_EQ(zipf(rng), 18);
  EXPECT_EQ(zipf(rng), 213);
  EXPECT_EQ(zipf(rng), 47);
}

TEST(RngTest, ForkDependsOnSeedAndNameOnly) {
  Rng used(7);
  for (int i = 0; i < 10; ++i) used.Next();
  const uint64_t first = Rng(7).Fork("a").Next();
  EXPECT_EQ(used.Fork("a").Next(), first);
  EXPECT_NE(used.Fork("b").Next(), first);
  EXPECT_NE(Rng(8).Fork("a").Next(), first);
  EXPECT_NE(used.Fork("a").Fork("a").Next(), first);
}

TEST(RngTest, ForkedStreamsAreUncorrelated) {
  Rng a = Rng(7).Fork("a");
  Rng b = Rng(7).Fork("b");
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    sum += (a.Uniform01() - 0.5) * (b.Uniform01() - 0.5);
  }
  // Standard deviation of the mean product: 1 / (12 sqrt(n)) = 0.00013.
  EXPECT_NEAR(sum / kDraws, 0, 0.0005);
}

TEST(RngTest, ShuffledOrdersAreAsLikely) {
  Rng rng(5);
  std::map<std::vector<int>, int> counts;
  constexpr int kTimes = 60'000;
  for (int i = 0; i < kTimes; ++i) {
    std::vector<int> values = {1, 2, 3};
    rng.Shuffle(values);
    ++counts[values];
  }
  EXPECT_EQ(counts.size(), 6u);
  // Within five standard deviations of a sixth.
  for (const auto& [order, count] : counts) {
    EXPECT_NEAR(count, kTimes / 6, 5 * std::sqrt(kTimes * 5 / 36.0));
  }
  std::vector<int> none;
  rng.Shuffle(none);
  EXPECT_TRUE(none.empty());
}

TEST(RngTest, UniformIsUniform) {
  Rng rng(1);
  EXPECT_LT(KolmogorovSmirnov([&] { return rng.Uniform01(); },
                              [](double x) { return x; }),
            1.95);
}

TEST(RngTest, OpenUniformStaysInside) {
  Rng rng(1);
  for (int i = 0; i < kDraws; ++i) {
    const double u = rng.UniformOpen01();
    ASSERT_GT(u, 0);
    ASSERT_LT(u, 1);
  }
  // The largest that it can be is below 1 in double precision.
  EXPECT_LT((static_cast<double>(~uint64_t{0} >> 12) + 0.5) * 0x1p-52, 1.0);
}

TEST(RngTest, UniformIntIsUnbiased) {
  Rng rng(3);
  std::vector<int> counts(7);
  for (int i = 0; i < kDraws; ++i) ++counts[rng.UniformInt(-3, 3) + 3];
  double chi_square = 0;
  for (const int count : counts) {
    const double expected = kDraws / 7.0;
    chi_square += (count - expected) * (count - expected) / expected;
  }
  EXPECT_LT(chi_square, 22.46);  // 6 degrees of freedom, p = 0.001.
}

TEST(RngTest, UniformIntRejectsWhereThatMatters) {
  // A span of 3/4 of all 64-bit values: without rejection every third result
  // would come twice as often as the others.
  Rng rng(4);
  const int64_t low = std::numeric_limits<int64_t>::min() + (int64_t{1} << 62);
  const int64_t high = std::numeric_limits<int64_t>::max();
  std::vector<int> counts(3);
  for (int i = 0; i < kDraws; ++i) {
    const int64_t x = rng.UniformInt(low, high);
    ASSERT_GE(x, low);
    ++counts[(static_cast<uint64_t>(x) - static_cast<uint64_t>(low)) % 3];
  }
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 3.0, 1200);
}

TEST(RngTest, UniformIntAtTheEdges) {
  Rng rng(5);
  EXPECT_EQ(rng.UniformInt(9, 9), 9);
  const int64_t low = std::numeric_limits<int64_t>::min();
  const int64_t high = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Rng(42).UniformInt(low, high),
            static_cast<int64_t>(0xd0764d4f4476689f));
}

TEST(RngTest, ExponentialHasItsDistribution) {
  Rng rng(6);
  EXPECT_LT(KolmogorovSmirnov([&] { return rng.Exponential(4); },
                              [](double x) { return -std::expm1(-x / 4); }),
            1.95);
  const Moments m = MomentsOf([&] { return rng.Exponential(4); });
  EXPECT_NEAR(m.mean, 4, 0.03);
  EXPECT_NEAR(m.stddev, 4, 0.06);
}

TEST(RngTest, ExponentialIsNotClipped) {
  Rng rng(6);
  double largest = 0;
  for (int i = 0; i < kDraws; ++i) {
    largest = std::max(largest, rng.Exponential(1));
  }
  // Expected ln(400000) + 0.58 = 13.5.
  EXPECT_GT(largest, 10);
}

TEST(RngTest, NormalHasItsDistribution) {
  Rng rng(7);
  EXPECT_LT(KolmogorovSmirnov(
                [&] { return rng.StandardNormal(); },
                [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }),
            1.95);
  const Moments m = MomentsOf([&] { return rng.Normal(10, 2); });
  EXPECT_NEAR(m.mean, 10, 0.015);
  EXPECT_NEAR(m.stddev, 2, 0.015);
}

TEST(RngTest, LogNormalHasItsDistribution) {
  Rng rng(8);
  EXPECT_LT(KolmogorovSmirnov([&] { return rng.LogNormal(2, 0.5); },
                              [](double x) {
                                return 0.5 * std::erfc(-(std::log(x) - 2) /
                                                       0.5 / std::sqrt(2.0));
                              }),
            1.95);
}

TEST(RngTest, GammaHasItsMoments) {
  Rng rng(9);
  for (const double shape : {0.1, 0.5, 1.0, 2.5, 40.0}) {
    const Moments m = MomentsOf([&] { return rng.Gamma(shape, 3 / shape); });
    EXPECT_NEAR(m.mean, 3, 0.06) << shape;
    EXPECT_NEAR(m.stddev / m.mean, 1 / std::sqrt(shape),
                0.03 / std::sqrt(shape))
        << shape;
  }
}

TEST(RngTest, GammaOfShapeTwoHasItsDistribution) {
  Rng rng(10);
  EXPECT_LT(
      KolmogorovSmirnov([&] { return rng.Gamma(2, 1); },
                        [](double x) { return 1 - (1 + x) * std::exp(-x); }),
      1.95);
}

TEST(ZipfDistributionTest, FrequenciesFollowThePowerLaw) {
  for (const double exponent : {0.0, 0.5, 0.999, 1.0, 1.2, 3.0}) {
    constexpr int kRanks = 20;
    Rng rng(11);
    const ZipfDistribution zipf(kRanks, exponent);
    std::vector<int> counts(kRanks + 1);
    for (int i = 0; i < kDraws; ++i) {
      const int64_t rank = zipf(rng);
      ASSERT_GE(rank, 1);
      ASSERT_LE(rank, kRanks);
      ++counts[rank];
    }
    double total = 0;
    for (int k = 1; k <= kRanks; ++k) total += std::pow(k, -exponent);
    double chi_square = 0;
    for (int k = 1; k <= kRanks; ++k) {
      const double expected = kDraws * std::pow(k, -exponent) / total;
      chi_square += (counts[k] - expected) * (counts[k] - expected) / expected;
    }
    EXPECT_LT(chi_square, 43.8) << exponent;  // 19 degrees, p = 0.001.
  }
}

TEST(ZipfDistributionTest, OneRank) {
  Rng rng(12);
  const ZipfDistribution zipf(1, 1.5);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(zipf(rng), 1);
}

TEST(ZipfDistributionTest, ManyRanksStayInRange) {
  Rng rng(13);
  const ZipfDistribution zipf(1000000000000, 0.8);
  for (int i = 0; i < 10000; ++i) {
    const int64_t rank = zipf(rng);
    ASSERT_GE(rank, 1);
    ASSERT_LE(rank, 1000000000000);
  }
}

TEST(ZipfDistributionTest, SteepLawOverManyRanks) {
  Rng rng(14);
  const ZipfDistribution zipf(1000000000, 20);
  for (int i = 0; i < 10000; ++i) {
    const int64_t rank = zipf(rng);
    ASSERT_GE(rank, 1);
    ASSERT_LE(rank, 1000000000);
  }
}

TEST(NormalQuantileTest, PublishedValues) {
  EXPECT_EQ(NormalQuantile(0.5), 0);
  EXPECT_NEAR(NormalQuantile(0.3), -0.5244005127080407, 1e-15);
  EXPECT_NEAR(NormalQuantile(0.075), -1.4395314709384557, 3e-15);
  EXPECT_NEAR(NormalQuantile(0.975), 1.9599639845400536, 3e-15);
  EXPECT_NEAR(NormalQuantile(1e-10), -6.361340902404056, 1e-14);
  EXPECT_NEAR(NormalQuantile(1e-300), -37.0470962993612, 1e-13);
}

}  // namespace
}  // namespace interleave
