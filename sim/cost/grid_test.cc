#include "sim/cost/grid.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

using ::testing::ElementsAre;

TEST(LocateTest, Cells) {
  const std::vector<double> axis = {1, 2, 4, 8};
  const AxisCell between = Locate(axis, 3);
  EXPECT_EQ(between.low, 1u);
  EXPECT_EQ(between.high, 2u);
  EXPECT_EQ(between.weight, 0.5);
  EXPECT_FALSE(between.outside);
  EXPECT_EQ(Locate(axis, 4).low, 2u);
  EXPECT_EQ(Locate(axis, 4).weight, 0);
  EXPECT_EQ(Locate(axis, 0.5).low, 0u);
  EXPECT_EQ(Locate(axis, 0.5).weight, 0);
  EXPECT_FALSE(Locate(axis, 0.5).outside);
  EXPECT_EQ(Locate(axis, 8).low, 3u);
  EXPECT_FALSE(Locate(axis, 8).outside);
  EXPECT_EQ(Locate(axis, 12).weight, 2);
  EXPECT_TRUE(Locate(axis, 12).outside);
  EXPECT_TRUE(Locate(std::vector<double>{5}, 6).outside);
  EXPECT_FALSE(Locate(std::vector<double>{5}, 5).outside);
}

TEST(LocateTest, GoesOnFromHalfOfTheLast) {
  const AxisCell above = Locate(std::vector<double>{4, 8, 15, 16}, 20);
  EXPECT_EQ(above.low, 1u);
  EXPECT_EQ(above.high, 3u);
  EXPECT_EQ(above.weight, 1.5);
  // From the first where none is below half.
  EXPECT_EQ(Locate(std::vector<double>{10, 11, 12}, 14).low, 0u);
  EXPECT_EQ(Locate(std::vector<double>{10, 11, 12}, 14).weight, 2);
}

// Ten a token, in steps of two tiles: the last two points are of one step.
TEST(CurveTest, StepsAtTheEndDoNotDecideWhatComesAfter) {
  const Curve curve = {{2, 4, 8, 15, 16}, {20, 40, 80, 160, 160}};
  bool outside = false;
  EXPECT_EQ(curve.At(24, &outside), 240);
}

TEST(CurveTest, InterpolatesAndExtends) {
  const Curve curve = {{1, 2, 4}, {10, 30, 20}};
  bool outside = false;
  EXPECT_EQ(curve.At(1, &outside), 10);
  EXPECT_EQ(curve.At(1.5, &outside), 20);
  EXPECT_EQ(curve.At(4, &outside), 20);
  EXPECT_EQ(curve.At(0, &outside), 10);
  EXPECT_FALSE(outside);
  EXPECT_EQ(curve.At(6, &outside), 10);
  EXPECT_TRUE(outside);
  // The line goes on, but no time is negative.
  EXPECT_EQ(curve.At(100, &outside), 0);
}

std::vector<GridPoint> Bilinear(std::vector<double> xs,
                                std::vector<double> ys) {
  std::vector<GridPoint> points;
  for (const double x : xs) {
    for (const double y : ys) {
      points.push_back({{x, y}, 1 + 2 * x + 3 * y + 5 * x * y});
    }
  }
  return points;
}

TEST(GridTest, BilinearFunctionIsReproduced) {
  const Grid grid(Bilinear({0, 16, 32}, {1, 2, 4, 8}));
  EXPECT_THAT(grid.axis(0), ElementsAre(0, 16, 32));
  EXPECT_THAT(grid.axis(1), ElementsAre(1, 2, 4, 8));
  bool outside = false;
  for (double x = 0; x <= 32; x += 4) {
    for (double y = 1; y <= 8; y += 0.5) {
      EXPECT_DOUBLE_EQ(grid.At({x, y}, &outside),
                       1 + 2 * x + 3 * y + 5 * x * y);
    }
  }
  EXPECT_FALSE(outside);
  EXPECT_DOUBLE_EQ(grid.At({40, 10}, &outside), 1 + 80 + 30 + 2000);
  EXPECT_TRUE(outside);
}

TEST(GridTest, ExactAtGridPointsInFourAxes) {
  std::vector<GridPoint> points;
  uint64_t state = 1;
  for (const double a : {1.0, 3.0, 9.0}) {
    for (const double b : {0.0, 7.0}) {
      for (const double c : {2.0, 4.0, 5.0}) {
        for (const double d : {16.0, 100.0}) {
          state = state * 6364136223846793005u + 1442695040888963407u;
          points.push_back(
              {{a, b, c, d}, static_cast<double>(state >> 40) / 7.0});
        }
      }
    }
  }
  const Grid grid(points);
  bool outside = false;
  double smallest = points[0].value;
  for (const GridPoint& point : points) {
    EXPECT_EQ(grid.At(point.at, &outside), point.value);
    smallest = std::min(smallest, point.value);
  }
  EXPECT_FALSE(outside);
  EXPECT_EQ(grid.smallest_value(), smallest);
}

TEST(GridTest, BetweenItsNeighbours) {
  const Grid grid(std::vector<GridPoint>{
      {{0, 0}, 1}, {{0, 1}, 4}, {{1, 0}, 9}, {{1, 1}, 2}});
  bool outside = false;
  for (double x = 0; x <= 1; x += 0.125) {
    for (double y = 0; y <= 1; y += 0.125) {
      const double t = grid.At({x, y}, &outside);
      EXPECT_GE(t, 1);
      EXPECT_LE(t, 9);
    }
  }
}

TEST(GridTest, SliceAgreesToTheLastBit) {
  std::vector<GridPoint> points;
  for (const double a : {1.0, 3.0, 10.0}) {
    for (const double b : {16.0, 37.0, 1000.0}) {
      points.push_back({{a, b}, a / 3 + b * a / 7 + b / 11});
    }
  }
  const Grid grid(points);
  for (double a = 0.5; a < 15; a += 0.7) {
    bool outside = false;
    const Curve curve = grid.Slice({a}, &outside);
    EXPECT_EQ(outside, a > 10);
    for (double b = 1; b < 2000; b += 13.3) {
      bool slice_outside = outside;
      bool at_outside = false;
      EXPECT_EQ(curve.At(b, &slice_outside), grid.At({a, b}, &at_outside));
      EXPECT_EQ(slice_outside, at_outside);
    }
  }
}

TEST(GridTest, MissingPointsAreFilled) {
  std::vector<GridPoint> points = Bilinear({0, 16, 32}, {1, 2, 4, 8});
  // One inside, one at the end of its line.
  points.erase(points.begin() + 11);  // (32, 8)
  points.erase(points.begin() + 5);   // (16, 2)
  const Grid grid(points);
  bool outside = false;
  EXPECT_DOUBLE_EQ(grid.At({16, 2}, &outside), 1 + 32 + 6 + 160);
  EXPECT_FALSE(outside);
  EXPECT_DOUBLE_EQ(grid.At({32, 8}, &outside), 1 + 64 + 24 + 1280);
  EXPECT_TRUE(outside);
  outside = false;
  grid.At({32, 5}, &outside);
  EXPECT_TRUE(outside);
  outside = false;
  grid.At({32, 4}, &outside);
  EXPECT_FALSE(outside);
}

}  // namespace
}  // namespace interleave::sim
