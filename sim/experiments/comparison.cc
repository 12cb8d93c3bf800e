#include "sim/experiments/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "base/statistics.h"
#include "sim/output/csv.h"

namespace interleave::sim {
namespace {

// To three significant digits.  Without the C library's log10 and pow, whose
// last bit depends on the machine. REQUIRES: value >= 0 and finite.
double Rounded(double value) {
  if (value == 0) return 0;
  double unit = 1;
  while (value >= 1000 * unit) unit *= 10;
  while (value < 100 * unit) unit /= 10;
  return std::round(value / unit) * unit;
}

// In the order of the columns of a CSV file.
struct FigureColumn {
  const char* name;
  double ComparisonRow::*figure;
};
constexpr FigureColumn kFigures[] = {
    {"ttft_p50_ms", &ComparisonRow::ttft_p50_ms},
    {"ttft_p99_ms", &ComparisonRow::ttft_p99_ms},
    {"tbt_p50_ms", &ComparisonRow::tbt_p50_ms},
    {"tbt_p99_ms", &ComparisonRow::tbt_p99_ms},
    {"throughput_requests_per_s", &ComparisonRow::requests_per_s},
    {"throughput_output_tokens_per_s", &ComparisonRow::output_tokens_per_s},
    {"slo_attainment", &ComparisonRow::slo_attainment},
    {"interference_share", &ComparisonRow::interference},
    {"preemptions", &ComparisonRow::preemptions}};

bool Dominates(const ComparisonRow& a, const ComparisonRow& b) {
  // Smaller is better.
  const double figures[][2] = {
      {Rounded(a.ttft_p99_ms), Rounded(b.ttft_p99_ms)},
      {Rounded(a.tbt_p99_ms), Rounded(b.tbt_p99_ms)},
      {-Rounded(a.output_tokens_per_s), -Rounded(b.output_tokens_per_s)}};
  bool better = false;
  for (const auto& [of_a, of_b] : figures) {
    if (of_a > of_b) return false;
    better = better || of_a < of_b;
  }
  return better;
}

// At least three digits, and no decimals beyond them.
std::string Figure(double value) {
  const int decimals = value < 10 ? 2 : value < 100 ? 1 : 0;
  return absl::StrFormat("%.*f", decimals, value);
}

}  // namespace

RepeatedRow OfRepeats(absl::Span<const ComparisonRow> repeats) {
  RepeatedRow row = {repeats[0], repeats[0]};
  for (const auto& [name, figure] : kFigures) {
    std::vector<double> values;
    for (const ComparisonRow& repeat : repeats) {
      values.push_back(repeat.*figure);
    }
    const Spread spread = SpreadOf(values);
    row.mean.*figure = spread.mean;
    row.deviation.*figure = spread.deviation;
  }
  return row;
}

void MarkParetoBest(std::vector<ComparisonRow>& rows) {
  for (ComparisonRow& row : rows) {
    row.pareto_best =
        std::none_of(rows.begin(), rows.end(), [&](const ComparisonRow& other) {
          return other.rate_rps == row.rate_rps && Dominates(other, row);
        });
  }
}

std::string ComparisonTable(absl::Span<const ComparisonRow> rows) {
  size_t width = 16;
  for (const ComparisonRow& row : rows) {
    width = std::max(width, row.policy.size());
  }
  const int w = static_cast<int>(width);
  std::string table;
  const ComparisonRow* previous = nullptr;
  for (const ComparisonRow& row : rows) {
    if (previous == nullptr || previous->rate_rps != row.rate_rps) {
      absl::StrAppendFormat(
          &table,
          "%s%-*s  TTFT P50   TTFT P99    TBT P99  output     SLO  inter-\n"
          "  %-*s        ms         ms         ms  tokens/s   met  ference\n",
          previous == nullptr ? "" : "\n", w + 2,
          absl::StrFormat("%g requests/s", row.rate_rps), w, "");
    }
    absl::StrAppendFormat(
        &table, "%c %-*s %9s  %9s  %9s  %8s  %3.0f%%  %6.0f%%\n",
        row.pareto_best ? '*' : ' ', w, row.policy, Figure(row.ttft_p50_ms),
        Figure(row.ttft_p99_ms), Figure(row.tbt_p99_ms),
        Figure(row.output_tokens_per_s), 100 * row.slo_attainment,
        100 * row.interference);
    previous = &row;
  }
  return table;
}

std::string ComparisonCsv(absl::Span<const ComparisonRow> rows) {
  std::string csv = "rate_requests_per_s,policy,";
  for (const auto& [name, figure] : kFigures) absl::StrAppend(&csv, name, ",");
  csv += "pareto_best\n";
  CsvRow line;
  for (const ComparisonRow& row : rows) {
    line.Clear();
    line.Number(row.rate_rps).Text(row.policy);
    for (const auto& [name, figure] : kFigures) line.Number(row.*figure);
    line.Int(row.pareto_best ? 1 : 0).End();
    csv += line.text();
  }
  return csv;
}

}  // namespace interleave::sim
