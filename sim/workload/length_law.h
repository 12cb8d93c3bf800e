// LengthLaw: how many tokens a generated prompt or output has.

#ifndef SIM_WORKLOAD_LENGTH_LAW_H_
#define SIM_WORKLOAD_LENGTH_LAW_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "base/random.h"

namespace interleave::sim {

class LengthLaw {
 public:
  virtual ~LengthLaw() = default;

  // At least 1.
  virtual int32_t Draw(Rng& rng) = 0;
};

// Bounds of every law: 1 <= low <= high <= kMaxTokens, both included.

std::unique_ptr<LengthLaw> MakeFixedLength(int32_t tokens);

std::unique_ptr<LengthLaw> MakeUniformLength(int32_t low, int32_t high);

// exp of a normal variable with standard deviation `sigma`, its mean such that
// the lengths' mean is `mean`; rounded to the nearest token, then moved into
// [low, high] (which moves the mean when the bounds are tight).
std::unique_ptr<LengthLaw> MakeLogNormalLength(double mean, double sigma,
                                               int32_t low, int32_t high);

// The `sigma` at which the coefficient of variation is `cv`.
double LogNormalSigmaFromCv(double cv);

// low - 1 + rank, the rank's probability proportional to rank^-exponent: `low`
// is the most frequent length.
std::unique_ptr<LengthLaw> MakeZipfLength(int32_t low, int32_t high,
                                          double exponent);

// Drawn from `lengths` with equal probability, with replacement.
// REQUIRES: not empty.
std::unique_ptr<LengthLaw> MakeResampledLength(std::vector<int32_t> lengths);

}  // namespace interleave::sim

#endif  // SIM_WORKLOAD_LENGTH_LAW_H_
