#include "sim/profiling/grid_axes.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "sim/profiling/measured_batch.h"
#include "sim/profiling/random_batches.h"

namespace interleave::sim {
namespace {

constexpr double kTile = 128;
constexpr double kFewTiles = 32;
// Cached tokens of the shortest decodes, and tokens of the shortest chunk.
constexpr double kShort = 16;

// `first` before those that are above it.
std::vector<double> WithFirst(double first, const std::vector<double>& values) {
  std::vector<double> all = {first};
  for (const double value : values) {
    if (value > all.back()) all.push_back(std::round(value));
  }
  return all;
}

std::vector<double> WithZero(const std::vector<double>& values) {
  return WithFirst(0, values);
}

}  // namespace

std::vector<double> Geometric(double first, double ratio, double last) {
  std::vector<double> values;
  for (double x = first; x < last * 0.75; x *= ratio) values.push_back(x);
  values.push_back(last);
  return values;
}

std::vector<double> Shares(double last, absl::Span<const double> shares) {
  std::vector<double> values = {1};
  for (const double share : shares) {
    const double x = std::round(last * share);
    if (x > values.back()) values.push_back(x);
  }
  return values;
}

std::vector<double> LinearAxis(const GridLimits& limits) {
  const double last =
      std::max(limits.max_chunk, limits.max_mixed_chunk + limits.max_sequences);
  std::vector<double> axis = Geometric(1, 4, std::min(kTile, last));
  while (axis.back() < last) {
    const double end = axis.back();
    const double next =
        std::min(last, end + kTile * (end < kFewTiles * kTile ? 1 : 4));
    if (end + 1 < next) axis.push_back(end + 1);
    axis.push_back(next);
  }
  return axis;
}

std::vector<std::vector<double>> DecodeAxes(const GridLimits& limits) {
  return {Shares(limits.max_sequences, {1.0 / 128, 1.0 / 64, 1.0 / 32, 1.0 / 16,
                                        0.125, 0.25, 0.375, 0.5, 0.75, 1}),
          Geometric(kShort, 4, limits.max_kv)};
}

std::vector<std::vector<double>> PrefillAxes(const GridLimits& limits) {
  const double context = limits.max_context;
  return {Geometric(kShort, 2, limits.max_chunk),
          WithZero(Geometric(context / 16, 4, context))};
}

std::vector<std::vector<std::vector<double>>> MixedAxes(
    const GridLimits& limits) {
  const double chunk = limits.max_mixed_chunk;
  const double context = limits.max_context;
  const double sequences = limits.max_sequences;
  const double kv = limits.max_kv;
  return {
      {Geometric(kShort, 2, chunk), WithZero({context / 4, context}),
       Shares(sequences, {1.0 / 32, 0.125, 0.25, 0.5, 0.75, 1}),
       WithFirst(kShort, {kv / 8, kv / 2, kv})},
      {Geometric(kShort, 2, chunk), WithZero({context / 4, context}),
       Shares(sequences, {0.125, 0.25, 0.5, 1}),
       WithFirst(kShort, {kv / 8, kv})},
      {Geometric(kShort, 4, chunk), WithZero({context / 4, context}),
       Shares(sequences, {0.125, 0.25, 1}), Geometric(kShort, 16, kv)},
      {Geometric(kShort, 8, chunk), WithZero({context}),
       Shares(sequences, {0.125, 1}), Geometric(kShort, 64, kv)},
  };
}

MeasuredBatch DecodesAt(absl::Span<const double> at) {
  MeasuredBatch batch;
  batch.decode_kv = TypicalLengths(Whole(at[0]), at[1]);
  batch.typical_mean = at[1];
  return batch;
}

MeasuredBatch PrefillAt(absl::Span<const double> at) {
  return Mixed({Whole(at[0]), Whole(at[1])}, 0, 0);
}

MeasuredBatch MixedAt(absl::Span<const double> at) {
  MeasuredBatch batch = DecodesAt(at.subspan(2));
  batch.chunks = {{Whole(at[0]), Whole(at[1])}};
  return batch;
}

}  // namespace interleave::sim
