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

absl::StatusOr<double> MissOf(const SampleFunction& sample,
                              const SampledGrid& sampled, const Grid& grid,
                              const Interval& interval) {
  double miss = 0;
  for (const Place& place : Probes(sampled, interval)) {
    ASSIGN_OR_RETURN(const GridSample measured, sample(place));
    bool outside = false;
    const double error = std::abs(grid.At(place, &outside) - measured.value);
    miss = std::max(miss, error / measured.scale);
  }
  return miss;
}

class Refiner {
 public:
  Refiner(const SampleFunction& sample, const RefineOptions& options,
          SampledGrid* grid)
      : sample_(sample), options_(options), grid_(*grid) {}

  absl::StatusOr<RefineResult> Run() {
    for (size_t axis = 0; axis < grid_.axes.size(); ++axis) {
      const std::vector<double>& values = grid_.axes[axis];
      for (size_t i = 0; i + 1 < values.size(); ++i) {
        RETURN_IF_ERROR(Consider(axis, values[i], values[i + 1]));
      }
    }
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

  // Probes an interval, and queues it where it misses.
  absl::Status Consider(size_t axis, double low, double high) {
    Interval interval = {axis, low, 0, high, 0};
    if (!Halve(options_.step[axis], &interval)) return absl::OkStatus();
    if (!options_.affordable(2)) {
      ++result_.left;
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(interval.miss,
                     MissOf(sample_, grid_, grid_.ToGrid(), interval));
    if (interval.miss > options_.tolerance) {
      queue_.push_back(interval);
    } else {
      Leave(interval.miss);
    }
    return absl::OkStatus();
  }

  absl::Status Split(const Interval& interval) {
    std::vector<double>& axis = grid_.axes[interval.axis];
    axis.insert(std::upper_bound(axis.begin(), axis.end(), interval.middle),
                interval.middle);
    RETURN_IF_ERROR(MeasureGrid(sample_, options_.seed, &grid_));
    ++result_.added;
    RETURN_IF_ERROR(Consider(interval.axis, interval.low, interval.middle));
    return Consider(interval.axis, interval.middle, interval.high);
  }

  const SampleFunction& sample_;
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
  Rng rng(seed);
  for (size_t i = places.size(); i > 1; --i) {
    const int64_t other = rng.UniformInt(0, static_cast<int64_t>(i) - 1);
    std::swap(places[i - 1], places[static_cast<size_t>(other)]);
  }
  return places;
}

absl::Status MeasureGrid(const SampleFunction& sample, uint64_t seed,
                         SampledGrid* grid) {
  for (const Place& place : ShuffledPlaces(grid->axes, seed)) {
    if (grid->values.count(place) > 0) continue;
    ASSIGN_OR_RETURN(const GridSample measured, sample(place));
    grid->values[place] = measured.value;
  }
  return absl::OkStatus();
}

absl::StatusOr<RefineResult> RefineGrid(const SampleFunction& sample,
                                        const RefineOptions& options,
                                        SampledGrid* grid) {
  return Refiner(sample, options, grid).Run();
}

}  // namespace interleave::sim
