#include "sim/profiling/grid_axes.h"

#include <cstddef>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/profiling/measured_batch.h"

namespace interleave::sim {
namespace {

using ::testing::ElementsAre;

TEST(GridAxesTest, SeriesByHand) {
  EXPECT_THAT(Geometric(16, 2, 128), ElementsAre(16, 32, 64, 128));
  // 64 is so near 80 that it says nothing.
  EXPECT_THAT(Geometric(16, 2, 80), ElementsAre(16, 32, 80));
  EXPECT_THAT(Geometric(16, 2, 8), ElementsAre(8));
  EXPECT_THAT(Shares(64, {0.01, 0.125, 0.5, 1}), ElementsAre(1, 8, 32, 64));
}

TEST(GridAxesTest, BothEndsOfEachTile) {
  GridLimits limits;
  limits.max_chunk = 400;
  limits.max_mixed_chunk = 300;
  limits.max_sequences = 60;
  EXPECT_THAT(LinearAxis(limits),
              ElementsAre(1, 4, 16, 64, 128, 129, 256, 257, 384, 385, 400));
  limits.max_chunk = 4700;
  const std::vector<double> axis = LinearAxis(limits);
  const std::vector<double> last(axis.end() - 5, axis.end());
  EXPECT_THAT(last, ElementsAre(4096, 4097, 4608, 4609, 4700));
}

TEST(GridAxesTest, ReachTheLimits) {
  GridLimits limits;
  limits.max_chunk = 2048;
  limits.max_mixed_chunk = 1024;
  limits.max_context = 4096;
  limits.max_sequences = 64;
  limits.max_kv = 2048;
  EXPECT_THAT(DecodeAxes(limits),
              ElementsAre(ElementsAre(1, 2, 4, 8, 16, 24, 32, 48, 64),
                          ElementsAre(16, 64, 256, 1024, 2048)));
  EXPECT_THAT(PrefillAxes(limits),
              ElementsAre(ElementsAre(16, 32, 64, 128, 256, 512, 1024, 2048),
                          ElementsAre(0, 256, 1024, 4096)));
  const auto levels = MixedAxes(limits);
  size_t before = size_t{1} << 30;
  for (const auto& axes : levels) {
    ASSERT_EQ(axes.size(), 4u);
    EXPECT_EQ(axes[0].back(), 1024);
    EXPECT_EQ(axes[1].front(), 0);
    EXPECT_EQ(axes[1].back(), 4096);
    EXPECT_EQ(axes[2].back(), 64);
    EXPECT_EQ(axes[3].back(), 2048);
    size_t places = 1;
    for (const auto& axis : axes) places *= axis.size();
    EXPECT_LT(places, before);
    before = places;
  }
}

TEST(GridAxesTest, BatchesAtPlaces) {
  const double at[] = {512, 1024, 3, 100};
  EXPECT_EQ(KeyOf(PrefillAt(at)), "512@1024|-|all");
  EXPECT_EQ(KeyOf(MixedAt(at)), "512@1024|3~100|all");
  const double decodes[] = {3, 100};
  EXPECT_EQ(KeyOf(DecodesAt(decodes)), "-|3~100|all");
}

}  // namespace
}  // namespace interleave::sim
