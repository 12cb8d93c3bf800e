// Rows of an experiment that compares policies under several loads, the best of
// them, and their table.

#ifndef SIM_EXPERIMENTS_COMPARISON_H_
#define SIM_EXPERIMENTS_COMPARISON_H_

#include <string>
#include <vector>

#include "absl/types/span.h"

namespace interleave::sim {

// One policy under one load, in one run or on average of several.
struct ComparisonRow {
  std::string policy;
  double rate_rps = 0;
  double ttft_p50_ms = 0;
  double ttft_p99_ms = 0;
  double tbt_p50_ms = 0;
  double tbt_p99_ms = 0;
  double requests_per_s = 0;
  double output_tokens_per_s = 0;
  // Shares in [0, 1].
  double slo_attainment = 0;
  double interference = 0;
  double preemptions = 0;
  // No other row of the same load is at least as good in TTFT P99, TBT P99 and
  // output tokens a second, and better in one of them.
  bool pareto_best = false;
};

// All figures of runs of one policy under one load: their means, and the
// standard deviations of single runs (0 of one run).
struct RepeatedRow {
  ComparisonRow mean;
  ComparisonRow deviation;
};

// REQUIRES: there are any.
RepeatedRow OfRepeats(absl::Span<const ComparisonRow> repeats);

// Sets pareto_best.  Figures that agree to three significant digits are equal:
// nobody is better for a difference that the table does not show.
void MarkParetoBest(std::vector<ComparisonRow>& rows);

// A block of lines for each load, in the order of the rows; the best rows carry
// a "*".
std::string ComparisonTable(absl::Span<const ComparisonRow> rows);

// One line a row, after a header.
std::string ComparisonCsv(absl::Span<const ComparisonRow> rows);

}  // namespace interleave::sim

#endif  // SIM_EXPERIMENTS_COMPARISON_H_
