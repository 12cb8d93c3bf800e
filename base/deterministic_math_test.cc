#include "base/deterministic_math.h"

#include <cmath>
#include <limits>

#include "base/random.h"
#include "gtest/gtest.h"

namespace interleave {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUlp = std::numeric_limits<double>::epsilon();

TEST(DeterministicMathTest, ExactWhereTheResultIs) {
  EXPECT_EQ(DeterministicLog(1.0), 0.0);
  EXPECT_EQ(DeterministicExp(0.0), 1.0);
  EXPECT_EQ(DeterministicPow(7.0, 0.0), 1.0);
  EXPECT_EQ(DeterministicPow(0.0, 2.0), 0.0);
  EXPECT_EQ(DeterministicLog(2.0), 0x1.62e42fefa39efp-1);
}

TEST(DeterministicMathTest, LimitsOfTheDomain) {
  EXPECT_EQ(DeterministicLog(0.0), -kInfinity);
  EXPECT_TRUE(std::isnan(DeterministicLog(-1.0)));
  EXPECT_TRUE(std::isnan(DeterministicLog(std::nan(""))));
  EXPECT_EQ(DeterministicLog(kInfinity), kInfinity);
  EXPECT_EQ(DeterministicExp(kInfinity), kInfinity);
  EXPECT_EQ(DeterministicExp(-kInfinity), 0.0);
  EXPECT_EQ(DeterministicExp(710.0), kInfinity);
  EXPECT_EQ(DeterministicExp(-746.0), 0.0);
  EXPECT_TRUE(std::isnan(DeterministicExp(std::nan(""))));
}

TEST(DeterministicMathTest, SubnormalNumbers) {
  const double smallest = std::numeric_limits<double>::denorm_min();
  EXPECT_NEAR(DeterministicLog(smallest), -744.4400719213812, 1e-12);
  EXPECT_NEAR(DeterministicExp(-740.0) / 4.2e-322, 1.0, 0.02);
}

TEST(DeterministicMathTest, LogAgreesWithLibm) {
  Rng rng(1);
  for (int i = 0; i < 200000; ++i) {
    const double x = std::ldexp(0.5 + 0.5 * rng.Uniform01(),
                                static_cast<int>(rng.UniformInt(-1000, 1000)));
    const double expected = std::log(x);
    ASSERT_NEAR(DeterministicLog(x), expected, 3 * kUlp * std::fabs(expected))
        << x;
  }
  for (int i = 0; i < 200000; ++i) {
    const double x = 0.5 + rng.Uniform01();
    const double expected = std::log(x);
    ASSERT_NEAR(DeterministicLog(x), expected, 3 * kUlp * std::fabs(expected))
        << x;
  }
}

TEST(DeterministicMathTest, ExpAgreesWithLibm) {
  Rng rng(2);
  for (int i = 0; i < 200000; ++i) {
    const double x = 1400 * rng.Uniform01() - 700;
    const double expected = std::exp(x);
    ASSERT_NEAR(DeterministicExp(x), expected, 3 * kUlp * expected) << x;
  }
}

TEST(DeterministicMathTest, PowAgreesWithLibm) {
  Rng rng(3);
  for (int i = 0; i < 100000; ++i) {
    const double base = 100 * rng.UniformOpen01();
    const double exponent = 10 * rng.Uniform01() - 5;
    const double expected = std::pow(base, exponent);
    ASSERT_NEAR(DeterministicPow(base, exponent), expected, 2e-14 * expected)
        << base << "^" << exponent;
  }
}

// Any other bits here mean that simulations would differ between machines or
// releases.
TEST(DeterministicMathTest, GoldenBits) {
  EXPECT_EQ(DeterministicLog(10.0), 0x1.26bb1bbb55516p+1);
  EXPECT_EQ(DeterministicLog(0.7), -0x1.6d3c324e13f4fp-2);
  EXPECT_EQ(DeterministicLog(1e-300), -0x1.5963447f87fb5p+9);
  EXPECT_EQ(DeterministicExp(1.0), 0x1.5bf0a8b14576ap+1);
  EXPECT_EQ(DeterministicExp(-0.3), 0x1.7b4c869c37c05p-1);
  EXPECT_EQ(DeterministicExp(6.9), 0x1.f02329e185a4fp+9);
  EXPECT_EQ(DeterministicPow(3.0, 1.7), 0x1.9e45c2acce59cp+2);
}

}  // namespace
}  // namespace interleave
