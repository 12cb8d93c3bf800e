// Quantiles, mean and spread of a few numbers.

#ifndef BASE_STATISTICS_H_
#define BASE_STATISTICS_H_

#include <utility>
#include <vector>

namespace interleave {

// The q-quantile, at rank q (size - 1), on the line between the two nearest
// ranks, as numpy has it.
// REQUIRES: values is not empty; 0 <= q <= 1.
double Quantile(std::vector<double> values, double q);

// REQUIRES: values is not empty.
inline double Median(std::vector<double> values) {
  return Quantile(std::move(values), 0.5);
}

struct Spread {
  double mean = 0;
  // Standard deviation of a single one, by n - 1; 0 of one number.
  double deviation = 0;
};

// REQUIRES: values is not empty.
Spread SpreadOf(const std::vector<double>& values);

}  // namespace interleave

#endif  // BASE_STATISTICS_H_
