#include "sim/profiling/grid_search.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

RefineOptions Options(std::vector<double> step) {
  RefineOptions options;
  options.step = std::move(step);
  options.affordable = [](int64_t) { return true; };
  return options;
}

TEST(ShuffledPlacesTest, EachOnce) {
  const std::vector<std::vector<double>> axes = {{1, 2, 3}, {4, 5}};
  const auto places = ShuffledPlaces(axes, 1);
  EXPECT_EQ(places.size(), 6u);
  EXPECT_EQ(std::set<std::vector<double>>(places.begin(), places.end()).size(),
            6u);
  EXPECT_EQ(places, ShuffledPlaces(axes, 1));
  EXPECT_NE(places, ShuffledPlaces(axes, 2));
}

TEST(MeasureGridTest, MeasuresOnlyWhatIsMissing) {
  int measured = 0;
  const SampleFunction sample = [&](absl::Span<const double> at) {
    ++measured;
    return GridSample{at[0] * at[1], 1};
  };
  SampledGrid grid;
  grid.axes = {{1, 2}, {3, 4}};
  grid.values[{1, 3}] = 77;
  EXPECT_OK(MeasureGrid({sample, nullptr}, 1, &grid));
  EXPECT_EQ(measured, 3);
  EXPECT_EQ((grid.values[{1, 3}]), 77);
  EXPECT_EQ((grid.values[{2, 4}]), 8);
}

TEST(MeasureGridTest, PreparesWhatIsMissing) {
  std::vector<std::vector<double>> prepared;
  GridFunction function;
  function.sample = [](absl::Span<const double> at) {
    return GridSample{at[0], 1};
  };
  function.prepare = [&](absl::Span<const std::vector<double>> places) {
    prepared.insert(prepared.end(), places.begin(), places.end());
    return absl::OkStatus();
  };
  SampledGrid grid;
  grid.axes = {{1, 2, 3}};
  grid.values[{2}] = 2;
  EXPECT_OK(MeasureGrid(function, 1, &grid));
  EXPECT_THAT(prepared, UnorderedElementsAre(ElementsAre(1), ElementsAre(3)));
  function.prepare = [](absl::Span<const std::vector<double>>) {
    return absl::InternalError("no");
  };
  grid.axes = {{1, 2, 3, 4}};
  EXPECT_THAT(MeasureGrid(function, 1, &grid),
              StatusIs(absl::StatusCode::kInternal));
}

TEST(RefineGridTest, LinesNeedNothing) {
  const SampleFunction sample = [](absl::Span<const double> at) {
    return GridSample{3 * at[0] + 5 * at[1], 100};
  };
  SampledGrid grid;
  grid.axes = {{0, 100}, {0, 100}};
  ASSERT_OK(MeasureGrid({sample, nullptr}, 1, &grid));
  ASSERT_OK_AND_ASSIGN(const RefineResult result,
                       RefineGrid({sample, nullptr}, Options({1, 1}), &grid));
  EXPECT_EQ(result.added, 0);
  EXPECT_EQ(result.left, 0);
  EXPECT_NEAR(result.largest_miss, 0, 1e-12);
}

// A step at 300: bisection closes in on it, and leaves the flat parts alone.
TEST(RefineGridTest, FindsAStep) {
  const SampleFunction sample = [](absl::Span<const double> at) {
    return GridSample{at[0] <= 300 ? 10.0 : 15.0, 15};
  };
  SampledGrid grid;
  grid.axes = {{0, 256, 512, 1024}};
  ASSERT_OK(MeasureGrid({sample, nullptr}, 1, &grid));
  ASSERT_OK_AND_ASSIGN(const RefineResult result,
                       RefineGrid({sample, nullptr}, Options({8}), &grid));
  EXPECT_THAT(grid.axes[0],
              ElementsAre(0, 256, 288, 296, 304, 320, 384, 512, 1024));
  EXPECT_EQ(result.added, 5);
}

TEST(RefineGridTest, AddsWholeSlabsAlongTheAxisThatBends) {
  const SampleFunction sample = [](absl::Span<const double> at) {
    return GridSample{at[0] * at[0] + at[1], 1000};
  };
  SampledGrid grid;
  grid.axes = {{0, 16, 64}, {0, 1, 2}};
  ASSERT_OK(MeasureGrid({sample, nullptr}, 1, &grid));
  ASSERT_OK_AND_ASSIGN(const RefineResult result,
                       RefineGrid({sample, nullptr}, Options({1, 1}), &grid));
  EXPECT_EQ(grid.axes[1].size(), 3u);
  EXPECT_EQ(grid.values.size(), grid.axes[0].size() * 3);
  EXPECT_EQ(result.left, 0);
  EXPECT_LE(result.largest_miss, 0.02);
  // Everywhere between as good as at the probes: the error of a chord of
  // length h is h^2 / 4 of 1000.
  const Grid table = grid.ToGrid();
  for (double x = 0; x <= 64; ++x) {
    bool outside = false;
    EXPECT_NEAR(table.At({x, 1}, &outside), x * x + 1, 20.0) << x;
  }
}

TEST(RefineGridTest, StopsWhereItCannotAffordMore) {
  int64_t measured = 0;
  const SampleFunction sample = [&](absl::Span<const double> at) {
    ++measured;
    return GridSample{at[0] * at[0], 100};
  };
  SampledGrid grid;
  grid.axes = {{0, 64, 128}};
  ASSERT_OK(MeasureGrid({sample, nullptr}, 1, &grid));
  RefineOptions options = Options({1});
  options.affordable = [&](int64_t more) { return measured + more <= 6; };
  ASSERT_OK_AND_ASSIGN(const RefineResult result,
                       RefineGrid({sample, nullptr}, options, &grid));
  // Both intervals are probed; one is split, and its halves are not probed.
  EXPECT_EQ(measured, 6);
  EXPECT_EQ(result.left, 3);
  // 32 away from either end of a chord of 64: 32 x 32 of 100.
  EXPECT_NEAR(result.largest_miss, 10.24, 1e-9);
}

TEST(RefineGridTest, FailuresComeBack) {
  const SampleFunction sample =
      [](absl::Span<const double> at) -> absl::StatusOr<GridSample> {
    if (at[0] == 50) return absl::InternalError("the card is gone");
    return GridSample{at[0], 1};
  };
  SampledGrid grid;
  grid.axes = {{0, 100}};
  ASSERT_OK(MeasureGrid({sample, nullptr}, 1, &grid));
  EXPECT_THAT(RefineGrid({sample, nullptr}, Options({1}), &grid),
              StatusIs(absl::StatusCode::kInternal, "the card is gone"));
}

}  // namespace
}  // namespace interleave::sim
