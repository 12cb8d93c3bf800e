#include "sim/cost/grid.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace interleave::sim {
namespace {

constexpr size_t kMaxAxes = 4;

void SortDistinct(std::vector<double>* values) {
  std::sort(values->begin(), values->end());
  values->erase(std::unique(values->begin(), values->end()), values->end());
}

// From where the line goes on above the last value of an axis of two and more.
size_t BaseOfExtension(absl::Span<const double> axis) {
  const auto above_half =
      std::upper_bound(axis.begin(), axis.end() - 1, axis.back() / 2);
  return std::max(static_cast<size_t>(above_half - axis.begin()), size_t{1}) -
         1;
}

}  // namespace

AxisCell Locate(absl::Span<const double> axis, double value) {
  const size_t last = axis.size() - 1;
  if (value <= axis[0]) return {};
  if (value == axis[last]) return {.low = last, .high = last};
  if (value > axis[last] && last == 0) return {.outside = true};
  AxisCell cell;
  cell.outside = value > axis[last];
  if (cell.outside) {
    cell.low = BaseOfExtension(axis);
    cell.high = last;
  } else {
    cell.high = static_cast<size_t>(
        std::upper_bound(axis.begin(), axis.end(), value) - axis.begin());
    cell.low = cell.high - 1;
  }
  cell.weight = (value - axis[cell.low]) / (axis[cell.high] - axis[cell.low]);
  return cell;
}

double Curve::At(double value, bool* outside) const {
  const AxisCell cell = Locate(x, value);
  *outside |= cell.outside;
  return std::max(0.0, Blend(y[cell.low], y[cell.high], cell.weight));
}

Grid::Grid(absl::Span<const GridPoint> points) {
  CHECK(!points.empty());
  const size_t num_axes = points[0].at.size();
  CHECK_GE(num_axes, size_t{1});
  CHECK_LE(num_axes, kMaxAxes);
  axes_.resize(num_axes);
  for (const GridPoint& point : points) {
    CHECK_EQ(point.at.size(), num_axes);
    for (size_t i = 0; i < num_axes; ++i) axes_[i].push_back(point.at[i]);
  }
  size_t size = 1;
  strides_.resize(num_axes);
  for (size_t i = num_axes; i-- > 0;) {
    SortDistinct(&axes_[i]);
    strides_[i] = size;
    size *= axes_[i].size();
  }
  values_.assign(size, 0.0);
  extended_.assign(size, 0);
  std::vector<uint8_t> known(size, 0);
  smallest_value_ = points[0].value;
  for (const GridPoint& point : points) {
    const size_t index = Index(point.at);
    CHECK(known[index] == 0);
    known[index] = 1;
    values_[index] = point.value;
    smallest_value_ = std::min(smallest_value_, point.value);
  }
  Fill(&known);
}

size_t Grid::Index(absl::Span<const double> at) const {
  size_t index = 0;
  for (size_t i = 0; i < at.size(); ++i) {
    const auto found =
        std::lower_bound(axes_[i].begin(), axes_[i].end(), at[i]);
    index += strides_[i] * static_cast<size_t>(found - axes_[i].begin());
  }
  return index;
}

void Grid::Fill(std::vector<uint8_t>* known) {
  for (size_t i = axes_.size(); i-- > 0;) {
    const size_t span = strides_[i] * axes_[i].size();
    for (size_t block = 0; block < values_.size(); block += span) {
      for (size_t first = block; first < block + strides_[i]; ++first) {
        FillLine(first, strides_[i], axes_[i], known);
      }
    }
  }
  // A point on no line with two known ones: the nearest in storage order is as
  // good a guess as any, and every lookup that uses it is reported.
  double nearest = 0;
  for (size_t i = 0; i < values_.size(); ++i) {
    if ((*known)[i] != 0) {
      nearest = values_[i];
    } else {
      values_[i] = nearest;
      extended_[i] = 1;
      has_extended_ = true;
    }
  }
}

void Grid::FillLine(size_t first, size_t stride,
                    const std::vector<double>& axis,
                    std::vector<uint8_t>* known) {
  Curve curve;
  // What stands on an extended point is extended.
  bool extended = false;
  for (size_t i = 0; i < axis.size(); ++i) {
    const size_t index = first + i * stride;
    if ((*known)[index] == 0) continue;
    curve.x.push_back(axis[i]);
    curve.y.push_back(values_[index]);
    extended |= extended_[index] != 0;
  }
  if (curve.x.size() < 2 || curve.x.size() == axis.size()) return;
  for (size_t i = 0; i < axis.size(); ++i) {
    const size_t index = first + i * stride;
    if ((*known)[index] != 0) continue;
    bool outside = extended || axis[i] < curve.x[0];
    values_[index] = curve.At(axis[i], &outside);
    extended_[index] = outside ? 1 : 0;
    has_extended_ |= outside;
    (*known)[index] = 1;
  }
}

double Grid::At(absl::Span<const double> at, bool* outside) const {
  const size_t n = axes_.size();
  DCHECK_EQ(at.size(), n);
  AxisCell cells[kMaxAxes];
  for (size_t i = 0; i < n; ++i) {
    cells[i] = Locate(axes_[i], at[i]);
    *outside |= cells[i].outside;
  }
  // The corners in storage order: the last axis varies fastest.
  double corners[size_t{1} << kMaxAxes];
  uint8_t extended = 0;
  const size_t num_corners = size_t{1} << n;
  for (size_t corner = 0; corner < num_corners; ++corner) {
    size_t index = 0;
    bool used = true;
    for (size_t i = 0; i < n; ++i) {
      const bool high = (corner >> (n - 1 - i) & 1) != 0;
      index += strides_[i] * (high ? cells[i].high : cells[i].low);
      if (high && cells[i].weight == 0) used = false;
    }
    corners[corner] = values_[index];
    if (used) extended |= extended_[index];
  }
  if (extended != 0) *outside = true;
  // Collapse the first axis, then the next, as Slice does.
  size_t half = num_corners / 2;
  for (size_t i = 0; i < n; ++i, half /= 2) {
    for (size_t c = 0; c < half; ++c) {
      corners[c] = Blend(corners[c], corners[c + half], cells[i].weight);
    }
  }
  return std::max(0.0, corners[0]);
}

Curve Grid::Slice(absl::Span<const double> others, bool* outside) const {
  DCHECK_EQ(others.size() + 1, axes_.size());
  std::vector<double> line = values_;
  for (size_t i = 0; i < others.size(); ++i) {
    const AxisCell cell = Locate(axes_[i], others[i]);
    *outside |= cell.outside;
    for (size_t c = 0; c < strides_[i]; ++c) {
      line[c] = Blend(line[cell.low * strides_[i] + c],
                      line[cell.high * strides_[i] + c], cell.weight);
    }
  }
  line.resize(axes_.back().size());
  return {axes_.back(), std::move(line)};
}

}  // namespace interleave::sim
