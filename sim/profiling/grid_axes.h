// Which batches a profiler's coarsest grids are of.

#ifndef SIM_PROFILING_GRID_AXES_H_
#define SIM_PROFILING_GRID_AXES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "sim/profiling/measured_batch.h"

namespace interleave::sim {

// The largest sizes of a profile's tables.
struct GridLimits {
  // Tokens of a chunk alone, of one beside decodes, and of what is cached
  // before either.
  int32_t max_chunk = 8192;
  int32_t max_mixed_chunk = 4096;
  int32_t max_context = 8192;
  // Decodes, and cached tokens of each.
  int32_t max_sequences = 256;
  int32_t max_kv = 8192;
};

// first, first x ratio, ..., last.
std::vector<double> Geometric(double first, double ratio, double last);

// 1, and shares of `last`, which ascend, in whole numbers.
std::vector<double> Shares(double last, absl::Span<const double> shares);

// Tokens of linear layers, whose time steps where a matrix product needs one
// tile of 128 tokens more, and is nearly flat up to the next: both ends of each
// step, above 4,096 tokens of each fourth.
std::vector<double> LinearAxis(const GridLimits& limits);

// Axes of attention: sequences and the mean of their cached tokens; chunk and
// context.
std::vector<std::vector<double>> DecodeAxes(const GridLimits& limits);
std::vector<std::vector<double>> PrefillAxes(const GridLimits& limits);

// Chunk, context, sequences and the mean of their cached tokens; the finest
// grid first.
std::vector<std::vector<std::vector<double>>> MixedAxes(
    const GridLimits& limits);

// The batches at places of these grids. Decodes have typical lengths.
MeasuredBatch DecodesAt(absl::Span<const double> at);
MeasuredBatch PrefillAt(absl::Span<const double> at);
MeasuredBatch MixedAt(absl::Span<const double> at);

}  // namespace interleave::sim

#endif  // SIM_PROFILING_GRID_AXES_H_
