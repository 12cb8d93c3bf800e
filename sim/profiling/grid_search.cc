#include "sim/profiling/grid_search.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/random.h"
#include "base/status_macros.h"

namespace interleave::sim {
namespace {

using Place = std::vector<double>;

// Between two neighbours on an axis.
struct Interval {
  size_t axis = 0;
  double low = 0;
  double middle = 0;
  double high = 0;
  double miss = 0;
};

// False where the interval is not to be split further.
bool Halve(double step, Interval* interval) {
  if (interval->high - interval->low <= step) return false;
  const double middle = (interval->low + interval->high) / 2;
  interval->middle = std::round(middle / step) * step;
  return interval->low < interval->middle && interval->middle < interval->high;
}

// The interval's middle, with all other axes at their middle value, and with
// all at their largest.
std::vector<Place> Probes(const SampledGrid& grid, const Interval& interval) {
  Place middle;
  Place largest;
  for (const std::vector<double>& axis : grid.axes) {
    middle.push_back(axis[axis.size() / 2]);
    largest.push_back(axis.back());
  }
  middle[interval.axis] = largest[interval.axis] = interval.middle;
  if (middle == largest) return {middle};
  return {middle, largest};
}

absl::Status Prepare(const GridFunction& function,
                     absl::Span<const Place> places) {
  if (!function.prepare || places.empty()) return absl::OkStatus();
  return function.prepare(places);
}

absl::StatusOr<double> MissOf(const GridFunction& function,
                              const SampledGrid& sampled, const Grid& grid,
                              const Interval& interval) {
  double miss = 0;
  for (const Place& place : Probes(sampled, interval)) {
    ASSIGN_OR_RETURN(const GridSample measured, function.sample(place));
    bool outside = false;
    const double error = std::abs(grid.At(place, &outside) - measured.value);
    miss = std::max(miss, error / measured.scale);
  }
  return miss;
}

class Refiner {
 public:
  Refiner(const GridFunction& function, const RefineOptions& options,
          SampledGrid* grid)
      : function_(function), options_(options), grid_(*grid) {}

  absl::StatusOr<RefineResult> Run() {
    std::vector<Interval> all;
    for (size_t axis = 0; axis < grid_.axes.size(); ++axis) {
      const std::vector<double>& values = grid_.axes[axis];
      for (size_t i = 0; i + 1 < values.size(); ++i) {
        all.push_back({axis, values[i], 0, values[i + 1], 0});
      }
    }
    RETURN_IF_ERROR(Consider(all));
    while (!queue_.empty()) {
      const auto worst = std::max_element(
          queue_.begin(), queue_.end(),
          [](const Interval& a, const Interval& b) { return a.miss < b.miss; });
      const Interval interval = *worst;
      queue_.erase(worst);
      if (!options_.affordable(SlabSize(interval.axis))) {
        Leave(interval.miss);
        continue;
      }
      RETURN_IF_ERROR(Split(interval));
    }
    return result_;
  }

 private:
  int64_t SlabSize(size_t axis) const {
    int64_t size = 1;
    for (size_t i = 0; i < grid_.axes.size(); ++i) {
      if (i != axis) size *= static_cast<int64_t>(grid_.axes[i].size());
    }
    return size;
  }

  void Leave(double miss) {
    result_.largest_miss = std::max(result_.largest_miss, miss);
    if (miss > options_.tolerance) ++result_.left;
  }

  // Probes intervals, and queues those that miss.
  absl::Status Consider(std::vector<Interval> intervals) {
    std::vector<Place> places;
    std::vector<Interval> probed;
    for (Interval& interval : intervals) {
      if (!Halve(options_.step[interval.axis], &interval)) continue;
      const std::vector<Place> probes = Probes(grid_, interval);
      const size_t more = places.size() + probes.size();
      if (!options_.affordable(static_cast<int64_t>(more))) {
        ++result_.left;
        continue;
      }
      places.insert(places.end(), probes.begin(), probes.end());
      probed.push_back(interval);
    }
    RETURN_IF_ERROR(Prepare(function_, places));
    const Grid grid = grid_.ToGrid();
    for (Interval& interval : probed) {
      ASSIGN_OR_RETURN(interval.miss, MissOf(function_, grid_, grid, interval));
      if (interval.miss > options_.tolerance) {
        queue_.push_back(interval);
      } else {
        Leave(interval.miss);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Split(const Interval& interval) {
    std::vector<double>& axis = grid_.axes[interval.axis];
    axis.insert(std::upper_bound(axis.begin(), axis.end(), interval.middle),
                interval.middle);
    RETURN_IF_ERROR(MeasureGrid(function_, options_.seed, &grid_));
    ++result_.added;
    return Consider({{interval.axis, interval.low, 0, interval.middle, 0},
                     {interval.axis, interval.middle, 0, interval.high, 0}});
  }

  const GridFunction& function_;
  const RefineOptions& options_;
  SampledGrid& grid_;
  std::vector<Interval> queue_;
  RefineResult result_;
};

}  // namespace

Grid SampledGrid::ToGrid() const {
  std::vector<GridPoint> points;
  for (const auto& [place, value] : values) points.push_back({place, value});
  return Grid(points);
}

std::vector<std::vector<double>> ShuffledPlaces(
    absl::Span<const std::vector<double>> axes, uint64_t seed) {
  std::vector<Place> places = {{}};
  for (const std::vector<double>& axis : axes) {
    std::vector<Place> longer;
    for (const Place& place : places) {
      for (const double value : axis) {
        longer.push_back(place);
        longer.back().push_back(value);
      }
    }
    places = std::move(longer);
  }
  Rng(seed).Shuffle(places);
  return places;
}

absl::Status MeasureGrid(const GridFunction& function, uint64_t seed,
                         SampledGrid* grid) {
  std::vector<Place> missing;
  for (Place& place : ShuffledPlaces(grid->axes, seed)) {
    if (grid->values.count(place) == 0) missing.push_back(std::move(place));
  }
  RETURN_IF_ERROR(Prepare(function, missing));
  for (const Place& place : missing) {
    ASSIGN_OR_RETURN(const GridSample measured, function.sample(place));
    grid->values[place] = measured.value;
  }
  return absl::OkStatus();
}

absl::StatusOr<RefineResult> RefineGrid(const GridFunction& function,
                                        const RefineOptions& options,
                                        SampledGrid* grid) {
  return Refiner(function, options, grid).Run();
}

}  // namespace interleave::sim
