#include "base/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace interleave {

double Quantile(std::vector<double> values, double q) {
  CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const double rank = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(rank);
  const size_t high = std::min(low + 1, values.size() - 1);
  const double share = rank - static_cast<double>(low);
  return values[low] + share * (values[high] - values[low]);
}

Spread SpreadOf(const std::vector<double>& values) {
  CHECK(!values.empty());
  const auto n = static_cast<double>(values.size());
  Spread spread;
  spread.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double value : values) {
    squares += (value - spread.mean) * (value - spread.mean);
  }
  if (values.size() > 1) spread.deviation = std::sqrt(squares / (n - 1));
  return spread;
}

}  // namespace interleave
