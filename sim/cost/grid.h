// Multilinear interpolation over measured grids.
//
// At a grid point the measured value itself; between, linear in each axis:
// kernel times are close to linear in each of tokens, sequences and cached
// tokens, and over public attention tables on grids that double, leaving a
// level out and predicting it linearly is off by 1.5 to 4.6% (mean of absolute
// errors; 10% over chunks alone), against 3.3 to 9.4% for log-log.
//
// Outside: below an axis' smallest value the smallest stands for it (kernels
// have a floor there); above its largest the line goes on that leads to it from
// the last value up to half of it (from the first where there is none), and the
// lookup says that it was outside.  The last two points would not do: where
// they are close, what kernels take goes up in steps of tiles between them, or
// not at all.

#ifndef SIM_COST_GRID_H_
#define SIM_COST_GRID_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace interleave::sim {

// Where a value lies on an axis.
struct AxisCell {
  size_t low = 0;
  size_t high = 0;
  // value = (1 - weight) axis[low] + weight axis[high]; above 1 outside.
  double weight = 0;
  bool outside = false;
};

// REQUIRES: `axis` ascends and is not empty.
AxisCell Locate(absl::Span<const double> axis, double value);

// From low to high; exact at weight 0.
inline double Blend(double low, double high, double weight) {
  return low + weight * (high - low);
}

// A function of one variable by its sorted points.
struct Curve {
  std::vector<double> x;
  std::vector<double> y;

  // Sets *outside, never clears it.  Not below 0.
  double At(double value, bool* outside) const;
};

// One row of a table: where, and what was measured.
struct GridPoint {
  std::vector<double> at;
  double value = 0;
};

class Grid {
 public:
  // A grid over the distinct values on each axis.  Points that are missing are
  // filled along the last axis, then the one before, and so on, where a line
  // has two points: between by interpolation, beyond by extension, and lookups
  // that use an extended point count as outside.
  // REQUIRES: points, each with the same number of axes, 1 to 4, and no two at
  // the same place.
  explicit Grid(absl::Span<const GridPoint> points);
  Grid() = default;

  bool empty() const { return values_.empty(); }
  size_t num_axes() const { return axes_.size(); }
  const std::vector<double>& axis(size_t i) const { return axes_[i]; }
  double smallest_value() const { return smallest_value_; }
  // Whether any missing point was filled by extension.
  bool has_extended() const { return has_extended_; }

  // Sets *outside, never clears it.  Not below 0.
  // REQUIRES: at.size() == num_axes().
  double At(absl::Span<const double> at, bool* outside) const;

  // The curve over the last axis at fixed values of all the others:
  // Slice(a).At(b) == At({a..., b}) to the last bit; it does not report
  // extended points (see has_extended).
  Curve Slice(absl::Span<const double> others, bool* outside) const;

 private:
  size_t Index(absl::Span<const double> at) const;
  void Fill(std::vector<uint8_t>* known);
  void FillLine(size_t first, size_t stride, const std::vector<double>& axis,
                std::vector<uint8_t>* known);

  std::vector<std::vector<double>> axes_;
  std::vector<size_t> strides_;
  std::vector<double> values_;
  std::vector<uint8_t> extended_;
  double smallest_value_ = 0;
  bool has_extended_ = false;
};

}  // namespace interleave::sim

#endif  // SIM_COST_GRID_H_
