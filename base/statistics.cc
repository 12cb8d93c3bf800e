#include "base/statistics.h"

#include <algorithm>
#include <cstddef>
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

}  // namespace interleave
