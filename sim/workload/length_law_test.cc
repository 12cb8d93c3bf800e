#include "sim/workload/length_law.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>

#include "base/random.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

constexpr int kDraws = 200000;

struct Summary {
  double mean = 0;
  double cv = 0;
  int32_t min = 0;
  int32_t max = 0;
};

Summary SummaryOf(LengthLaw& law) {
  Rng rng(1);
  double sum = 0;
  double squares = 0;
  Summary result;
  for (int i = 0; i < kDraws; ++i) {
    const int32_t length = law.Draw(rng);
    sum += length;
    squares += static_cast<double>(length) * length;
    result.min = i == 0 ? length : std::min(result.min, length);
    result.max = std::max(result.max, length);
  }
  result.mean = sum / kDraws;
  result.cv =
      std::sqrt(squares / kDraws - result.mean * result.mean) / result.mean;
  return result;
}

TEST(LengthLawTest, Fixed) {
  const Summary s = SummaryOf(*MakeFixedLength(512));
  EXPECT_EQ(s.min, 512);
  EXPECT_EQ(s.max, 512);
}

TEST(LengthLawTest, UniformIncludesBothEnds) {
  const Summary s = SummaryOf(*MakeUniformLength(10, 20));
  EXPECT_EQ(s.min, 10);
  EXPECT_EQ(s.max, 20);
  EXPECT_NEAR(s.mean, 15, 0.05);
}

TEST(LengthLawTest, LogNormalHasTheMeanAndVariationAsked) {
  const Summary s = SummaryOf(
      *MakeLogNormalLength(1000, LogNormalSigmaFromCv(0.9), 1, 1000000000));
  EXPECT_NEAR(s.mean, 1000, 10);
  EXPECT_NEAR(s.cv, 0.9, 0.02);
}

TEST(LengthLawTest, LogNormalStaysInItsBounds) {
  const Summary s = SummaryOf(*MakeLogNormalLength(100, 2, 50, 400));
  EXPECT_EQ(s.min, 50);
  EXPECT_EQ(s.max, 400);
}

TEST(LengthLawTest, LogNormalOfTheLargestMeanFits) {
  const Summary s = SummaryOf(*MakeLogNormalLength(1e9, 10, 1, 1000000000));
  EXPECT_GE(s.min, 1);
  EXPECT_LE(s.max, 1000000000);
}

TEST(LengthLawTest, SigmaFromCv) {
  EXPECT_EQ(LogNormalSigmaFromCv(0), 0);
  EXPECT_NEAR(LogNormalSigmaFromCv(1), std::sqrt(std::log(2.0)), 1e-15);
}

TEST(LengthLawTest, ZipfFavoursTheLowEnd) {
  Rng rng(2);
  const std::unique_ptr<LengthLaw> law = MakeZipfLength(100, 103, 1);
  std::map<int32_t, int> counts;
  for (int i = 0; i < kDraws; ++i) ++counts[law->Draw(rng)];
  ASSERT_EQ(counts.size(), 4);
  // 1 : 1/2 : 1/3 : 1/4, of a sum of 25/12.
  EXPECT_NEAR(counts[100], kDraws * 12.0 / 25, 1000);
  EXPECT_NEAR(counts[101], kDraws * 6.0 / 25, 1000);
  EXPECT_NEAR(counts[102], kDraws * 4.0 / 25, 1000);
  EXPECT_NEAR(counts[103], kDraws * 3.0 / 25, 1000);
}

TEST(LengthLawTest, ResampledKeepsFrequencies) {
  Rng rng(3);
  const std::unique_ptr<LengthLaw> law = MakeResampledLength({7, 7, 9, 1000});
  std::map<int32_t, int> counts;
  for (int i = 0; i < kDraws; ++i) ++counts[law->Draw(rng)];
  ASSERT_EQ(counts.size(), 3);
  EXPECT_NEAR(counts[7], kDraws / 2, 1000);
  EXPECT_NEAR(counts[9], kDraws / 4, 1000);
  EXPECT_NEAR(counts[1000], kDraws / 4, 1000);
}

}  // namespace
}  // namespace interleave::sim
