// Rng: reproducible random numbers.
//
// The same seed gives the same numbers on every machine and in every release:
// generator and distributions are all ours, and are built on arithmetic that
// IEEE 754 fixes (std:: distributions and absl::BitGen promise neither).  A
// change of any of them is a change of every simulation: the golden values of
// the test must hold.
//
//   const Rng root(seed);
//   Rng arrivals = root.Fork("arrivals");
//   Rng lengths = root.Fork("prompt_tokens");
//
// Streams that are forked by name do not depend on what the others have drawn,
// so changing one purpose's law leaves the others' numbers where they were.

#ifndef BASE_RANDOM_H_
#define BASE_RANDOM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace interleave {

// xoshiro256++ (Blackman and Vigna, 2019), its state filled by SplitMix64.
class Rng {
 public:
  explicit Rng(uint64_t seed);

  // An independent stream.  Depends on the seed this one was made with and on
  // the name, not on what has been drawn from it.
  Rng Fork(absl::string_view name) const;

  // 64 random bits.
  uint64_t Next() {
    const uint64_t result = Rotate(state_[0] + state_[3], 23) + state_[0];
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = Rotate(state_[3], 45);
    return result;
  }

  // Uniform on [0, 1), a multiple of 2^-53.
  double Uniform01() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

  // Uniform on the open interval (0, 1): what goes into a logarithm.
  double UniformOpen01() {
    return (static_cast<double>(Next() >> 12) + 0.5) * 0x1p-52;
  }

  // Uniform on [low, high], both included, without bias.
  // REQUIRES: low <= high.
  int64_t UniformInt(int64_t low, int64_t high);

  // Puts the values in an order of which each is as likely (Fisher and Yates).
  template <typename T>
  void Shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i) {
      const int64_t other = UniformInt(0, static_cast<int64_t>(i) - 1);
      std::swap(values[i - 1], values[static_cast<size_t>(other)]);
    }
  }

  // True with the given probability.
  bool Bernoulli(double probability) { return Uniform01() < probability; }

  // REQUIRES: mean >= 0.  One draw of the generator.
  double Exponential(double mean);

  // Mean 0, variance 1.  One draw of the generator, by the inverse of the
  // distribution function, so that the result rises with the draw.
  double StandardNormal();
  double Normal(double mean, double stddev) {
    return mean + stddev * StandardNormal();
  }

  // exp of Normal(mu, sigma).  One draw of the generator.
  double LogNormal(double mu, double sigma);

  // Mean shape * scale, coefficient of variation 1 / sqrt(shape).
  // REQUIRES: shape > 0, scale >= 0.
  double Gamma(double shape, double scale);

 private:
  static uint64_t Rotate(uint64_t x, int k) {
    return (x << k) | (x >> (64 - k));
  }

  uint64_t seed_;
  std::array<uint64_t, 4> state_;
};

// Ranks 1..n with probability proportional to rank^-exponent, in constant time
// and memory: rejection-inversion (Hoermann and Derflinger, 1996).
class ZipfDistribution {
 public:
  // REQUIRES: n >= 1, exponent >= 0.
  ZipfDistribution(int64_t n, double exponent);

  int64_t operator()(Rng& rng) const;

 private:
  // The integral of x^-exponent from 1 to x, and its inverse.
  double Integral(double x) const;
  double IntegralInverse(double y) const;
  int64_t NearestRank(double x) const;

  int64_t n_;
  double exponent_;
  double integral_low_;
  double integral_high_;
  // How far below its rank a value may lie and surely be accepted: the least
  // such distance is that of rank 2.
  double sure_below_;
};

// The quantile of the standard normal distribution at p, 0 < p < 1, to about
// 1e-16 relative: algorithm AS 241 (Wichura, 1988).
double NormalQuantile(double p);

}  // namespace interleave

#endif  // BASE_RANDOM_H_
