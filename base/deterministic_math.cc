#include "base/deterministic_math.h"

#include <bit>
#include <cstdint>
#include <limits>

namespace interleave {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// ln 2 in two parts: the first has 21 trailing zero bits, so that its product
// with an exponent of at most 11 bits is exact.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kInverseLn2 = 0x1.71547652b82fep+0;

constexpr int kMantissaBits = 52;
constexpr int kExponentBias = 1023;
constexpr uint64_t kMantissaMask = (uint64_t{1} << kMantissaBits) - 1;

// 2^k for a normal result.
double PowerOfTwo(int k) {
  return std::bit_cast<double>(static_cast<uint64_t>(k + kExponentBias)
                               << kMantissaBits);
}

// atanh(s) / s as a polynomial of t = s * s for t <= 0.0295: the terms left out
// are below 1e-18.  Summed in pairs, which shortens the chain of dependent
// operations.
double AtanhSeries(double t) {
  const double t2 = t * t;
  const double t4 = t2 * t2;
  const double low = (1.0 + t * (1.0 / 3)) + t2 * (1.0 / 5 + t * (1.0 / 7));
  const double middle =
      (1.0 / 9 + t * (1.0 / 11)) + t2 * (1.0 / 13 + t * (1.0 / 15));
  const double high = (1.0 / 17 + t * (1.0 / 19)) + t2 * (1.0 / 21);
  return low + t4 * (middle + t4 * high);
}

// (e^r - 1 - r) / r^2 for |r| <= 0.35: Taylor up to the power 13 of r, below
// 1e-17 from exact.
double ExpTail(double r) {
  constexpr double k2 = 1.0 / 2, k3 = 1.0 / 6, k4 = 1.0 / 24, k5 = 1.0 / 120;
  constexpr double k6 = 1.0 / 720, k7 = 1.0 / 5040, k8 = 1.0 / 40320;
  constexpr double k9 = 1.0 / 362880, k10 = 1.0 / 3628800;
  constexpr double k11 = 1.0 / 39916800, k12 = 1.0 / 479001600;
  constexpr double k13 = 1.0 / 6227020800.0;
  const double r2 = r * r;
  const double r4 = r2 * r2;
  const double low = (k2 + r * k3) + r2 * (k4 + r * k5);
  const double middle = (k6 + r * k7) + r2 * (k8 + r * k9);
  const double high = (k10 + r * k11) + r2 * (k12 + r * k13);
  return low + r4 * (middle + r4 * high);
}

}  // namespace

double DeterministicLog(double x) {
  if (!(x > 0)) return x == 0 ? -kInfinity : kNan;
  if (x == kInfinity) return x;
  int exponent = 0;
  if (x < std::numeric_limits<double>::min()) {
    x *= 0x1p54;
    exponent = -54;
  }
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  exponent += static_cast<int>(bits >> kMantissaBits) - kExponentBias;
  double m = std::bit_cast<double>(
      (bits & kMantissaMask) |
      (static_cast<uint64_t>(kExponentBias) << kMantissaBits));
  // m in [sqrt(1/2), sqrt(2)), so that log(m) and the exponent's part never
  // cancel.
  const bool above = m > 1.4142135623730951;
  m = above ? m * 0.5 : m;
  exponent += above ? 1 : 0;
  const double s = (m - 1.0) / (m + 1.0);
  const double log_m = 2.0 * s * AtanhSeries(s * s);
  const double e = exponent;
  return e * kLn2High + (log_m + e * kLn2Low);
}

double DeterministicExp(double x) {
  if (x != x) return x;
  if (x > 709.79) return kInfinity;
  if (x < -745.2) return 0;
  const double scaled = x * kInverseLn2;
  const int k = static_cast<int>(scaled + (scaled < 0 ? -0.5 : 0.5));
  const double r = (x - k * kLn2High) - k * kLn2Low;
  const double value = 1.0 + (r + r * r * ExpTail(r));
  // In two steps, since 2^k alone may not be a normal number.
  const int half = k / 2;
  return value * PowerOfTwo(half) * PowerOfTwo(k - half);
}

double DeterministicPow(double base, double exponent) {
  if (exponent == 0) return 1;
  return DeterministicExp(exponent * DeterministicLog(base));
}

}  // namespace interleave
