// Measuring over a grid, and refining the grid where interpolation misses.

#ifndef SIM_PROFILING_GRID_SEARCH_H_
#define SIM_PROFILING_GRID_SEARCH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "sim/cost/grid.h"

namespace interleave::sim {

struct GridSample {
  // What the table will hold.
  double value = 0;
  // What an error is counted against: the time of the whole iteration.
  double scale = 0;
};

// Measures one place.
using SampleFunction =
    std::function<absl::StatusOr<GridSample>(absl::Span<const double>)>;

// Told of places that are about to be asked for, so that they can be measured
// together; may be empty.
using PrepareFunction =
    std::function<absl::Status(absl::Span<const std::vector<double>> places)>;

struct GridFunction {
  SampleFunction sample;
  PrepareFunction prepare;
};

// A full grid of measurements: each combination of the axes' values.
struct SampledGrid {
  std::vector<std::vector<double>> axes;
  std::map<std::vector<double>, double> values;

  Grid ToGrid() const;
};

// All combinations, in an order that `seed` shuffles: what drifts with time (a
// card's clock as it warms up) then is noise and no slope along an axis.
std::vector<std::vector<double>> ShuffledPlaces(
    absl::Span<const std::vector<double>> axes, uint64_t seed);

// Measures every combination of grid->axes that has no value yet.
absl::Status MeasureGrid(const GridFunction& function, uint64_t seed,
                         SampledGrid* grid);

struct RefineOptions {
  // Largest error, relative to the sample's scale, that needs no refinement.
  double tolerance = 0.02;
  // By axis: an interval up to this wide stays whole; values that are added are
  // multiples of it.
  std::vector<double> step;
  // Whether so many more measurements can be afforded.
  std::function<bool(int64_t)> affordable;
  uint64_t seed = 1;
};

struct RefineResult {
  // Values that were added to axes, each with its slab of measurements.
  int64_t added = 0;
  // Intervals that miss by more than the tolerance and stay, or could not be
  // probed, since no more could be afforded.
  int64_t left = 0;
  // The largest miss among probed intervals that stay.
  double largest_miss = 0;
};

// Probes the middle of each interval of each axis, at the middles and at the
// ends of the other axes; the interval that misses most is split first, and its
// halves are probed in turn.
absl::StatusOr<RefineResult> RefineGrid(const GridFunction& function,
                                        const RefineOptions& options,
                                        SampledGrid* grid);

}  // namespace interleave::sim

#endif  // SIM_PROFILING_GRID_SEARCH_H_
