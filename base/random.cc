#include "base/random.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/deterministic_math.h"
#include "base/mix64.h"

namespace interleave {
namespace {

// SplitMix64 (Steele, Lea and Flood, 2014): advances `state`, returns 64 bits.
uint64_t SplitMix(uint64_t& state) {
  state += kMix64Step;
  return Mix64(state);
}

// FNV-1a.
uint64_t HashName(absl::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
  return hash;
}

// c[0] + c[1] x + ... + c[7] x^7, in pairs to shorten the chain of dependent
// operations.
double Polynomial7(const double (&c)[8], double x) {
  const double x2 = x * x;
  const double low = (c[0] + c[1] * x) + (c[2] + c[3] * x) * x2;
  const double high = (c[4] + c[5] * x) + (c[6] + c[7] * x) * x2;
  return low + high * (x2 * x2);
}

// The coefficients of AS 241's PPND16: |p - 1/2| <= 0.425, then two tails.
constexpr double kCentralNumerator[8] = {
    3.3871328727963666080e0,  1.3314166789178437745e+2,
    1.9715909503065514427e+3, 1.3731693765509461125e+4,
    4.5921953931549871457e+4, 6.7265770927008700853e+4,
    3.3430575583588128105e+4, 2.5090809287301226727e+3};
constexpr double kCentralDenominator[8] = {1.0,
                                           4.2313330701600911252e+1,
                                           6.8718700749205790830e+2,
                                           5.3941960214247511077e+3,
                                           2.1213794301586595867e+4,
                                           3.9307895800092710610e+4,
                                           2.8729085735721942674e+4,
                                           5.2264952788528545610e+3};
constexpr double kTailNumerator[8] = {
    1.42343711074968357734e0,  4.63033784615654529590e0,
    5.76949722146069140550e0,  3.64784832476320460504e0,
    1.27045825245236838258e0,  2.41780725177450611770e-1,
    2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr double kTailDenominator[8] = {1.0,
                                        2.05319162663775882187e0,
                                        1.67638483018380384940e0,
                                        6.89767334985100004550e-1,
                                        1.48103976427480074590e-1,
                                        1.51986665636164571966e-2,
                                        5.47593808499534494600e-4,
                                        1.05075007164441684324e-9};
constexpr double kFarTailNumerator[8] = {
    6.65790464350110377720e0,  5.46378491116411436990e0,
    1.78482653991729133580e0,  2.96560571828504891230e-1,
    2.65321895265761230930e-2, 1.24266094738807843860e-3,
    2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr double kFarTailDenominator[8] = {1.0,
                                           5.99832206555887937690e-1,
                                           1.36929880922735805310e-1,
                                           1.48753612908506148525e-2,
                                           7.86869131145613259100e-4,
                                           1.84631831751005468180e-5,
                                           1.42151175831644588870e-7,
                                           2.04426310338993978564e-15};

// The size of the quantile whose nearer tail has probability `tail`.
double TailQuantile(double tail) {
  const double r = std::sqrt(-DeterministicLog(tail));
  if (r <= 5.0) {
    return Polynomial7(kTailNumerator, r - 1.6) /
           Polynomial7(kTailDenominator, r - 1.6);
  }
  return Polynomial7(kFarTailNumerator, r - 5.0) /
         Polynomial7(kFarTailDenominator, r - 5.0);
}

// (e^t - 1) / t and log(1 + t) / t, with their limit 1 at 0.  Near 0 by
// series, elsewhere where no digits cancel, directly.
constexpr double kSeriesRange = 0.01;

double ExpMinusOneOver(double t) {
  if (std::fabs(t) > kSeriesRange) return (DeterministicExp(t) - 1.0) / t;
  return 1.0 + t / 2 * (1.0 + t / 3 * (1.0 + t / 4 * (1.0 + t / 5)));
}

double LogOnePlusOver(double t) {
  if (std::fabs(t) > kSeriesRange) return DeterministicLog(1.0 + t) / t;
  return 1.0 -
         t * (1.0 / 2 -
              t * (1.0 / 3 - t * (1.0 / 4 - t * (1.0 / 5 - t * (1.0 / 6)))));
}

}  // namespace

double NormalQuantile(double p) {
  const double q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * Polynomial7(kCentralNumerator, r) /
           Polynomial7(kCentralDenominator, r);
  }
  return q < 0 ? -TailQuantile(p) : TailQuantile(1.0 - p);
}

Rng::Rng(uint64_t seed) : seed_(seed) {
  uint64_t s = seed;
  for (uint64_t& word : state_) word = SplitMix(s);
}

Rng Rng::Fork(absl::string_view name) const {
  uint64_t s = seed_;
  uint64_t mixed = SplitMix(s) ^ HashName(name);
  return Rng(SplitMix(mixed));
}

int64_t Rng::UniformInt(int64_t low, int64_t high) {
  DCHECK_LE(low, high);
  const uint64_t span =
      static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
  if (span == 0) return static_cast<int64_t>(Next());  // All 2^64 values.
  // Lemire (2019): the high word of a product, with the few values rejected
  // that would favour some results.
  unsigned __int128 product = static_cast<unsigned __int128>(Next()) * span;
  if (static_cast<uint64_t>(product) < span) {
    const uint64_t threshold = (0 - span) % span;
    while (static_cast<uint64_t>(product) < threshold) {
      product = static_cast<unsigned __int128>(Next()) * span;
    }
  }
  return static_cast<int64_t>(static_cast<uint64_t>(low) +
                              static_cast<uint64_t>(product >> 64));
}

double Rng::Exponential(double mean) {
  return -mean * DeterministicLog(UniformOpen01());
}

double Rng::StandardNormal() { return NormalQuantile(UniformOpen01()); }

double Rng::LogNormal(double mu, double sigma) {
  return DeterministicExp(mu + sigma * StandardNormal());
}

// Marsaglia and Tsang (2000).
double Rng::Gamma(double shape, double scale) {
  DCHECK_GT(shape, 0);
  if (shape < 1) {
    // Gamma(shape) = Gamma(shape + 1) * U^(1 / shape).
    const double boost = DeterministicPow(UniformOpen01(), 1.0 / shape);
    return Gamma(shape + 1, scale) * boost;
  }
  const double d = shape - 1.0 / 3;
  const double c = 1.0 / std::sqrt(9.0 * d);
  while (true) {
    const double x = StandardNormal();
    const double root = 1.0 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    const double u = UniformOpen01();
    if (u < 1.0 - 0.0331 * (x * x) * (x * x) ||
        DeterministicLog(u) <
            0.5 * x * x + d * (1.0 - v + DeterministicLog(v))) {
      return d * v * scale;
    }
  }
}

// The hat over rank k is the integral of x^-exponent over [k - 1/2, k + 1/2],
// which the convexity of x^-exponent makes at least k^-exponent.
ZipfDistribution::ZipfDistribution(int64_t n, double exponent)
    : n_(n), exponent_(exponent) {
  CHECK_GE(n, 1);
  CHECK_GE(exponent, 0);
  // The part of rank 1's interval that would be rejected is left out.
  integral_low_ = Integral(1.5) - 1.0;
  integral_high_ = Integral(static_cast<double>(n) + 0.5);
  sure_below_ =
      2.0 - IntegralInverse(Integral(2.5) - DeterministicPow(2.0, -exponent));
}

double ZipfDistribution::Integral(double x) const {
  const double log_x = DeterministicLog(x);
  return log_x * ExpMinusOneOver((1.0 - exponent_) * log_x);
}

double ZipfDistribution::IntegralInverse(double y) const {
  return DeterministicExp(y * LogOnePlusOver((1.0 - exponent_) * y));
}

// Rounding at a steep law's far end can make x infinite or NaN: the last rank.
int64_t ZipfDistribution::NearestRank(double x) const {
  if (!(x < static_cast<double>(n_))) return n_;
  return x < 1 ? 1 : static_cast<int64_t>(x + 0.5);
}

int64_t ZipfDistribution::operator()(Rng& rng) const {
  while (true) {
    const double y =
        integral_low_ + rng.UniformOpen01() * (integral_high_ - integral_low_);
    const double x = IntegralInverse(y);
    const int64_t rank = NearestRank(x);
    // Accepts the share k^-exponent / hat of the hat's interval: its upper end,
    // most of which a comparison tells.
    const double k = static_cast<double>(rank);
    if (k - x <= sure_below_) return rank;
    if (y >= Integral(k + 0.5) - DeterministicPow(k, -exponent_)) return rank;
  }
}

}  // namespace interleave
