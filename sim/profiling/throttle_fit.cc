#include "sim/profiling/throttle_fit.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/sim_time.h"
#include "base/statistics.h"
#include "sim/cost/throttle.h"

namespace interleave::sim {
namespace {

// Time constants that are tried, in microseconds.
constexpr double kShortest = 5e3;
constexpr double kLongest = 1e6;
constexpr double kRatio = 1.03;
// As compute_tokens: steps above memory_tokens.
constexpr double kTokenStep = 64;
constexpr double kMostTokens = 1024;
constexpr size_t kFewest = 8;
constexpr double kNoSlowdown = 0.005;
// A time above so many medians is a hiccup, not the card; the median is taken
// in its place.
constexpr double kHiccup = 1.3;

// Batches of one size: the states in which they began, and what they took.
struct Kind {
  std::vector<double> state;
  std::vector<double> us;
};
// By tokens.
using Kinds = std::map<int64_t, Kind>;

// Of kinds with enough samples.
std::vector<ThrottleSample> WithoutHiccups(
    absl::Span<const ThrottleSample> series) {
  std::map<int64_t, std::vector<double>> times;
  for (const ThrottleSample& s : series) times[s.tokens].push_back(s.device_us);
  std::map<int64_t, double> medians;
  for (auto& [tokens, us] : times) {
    if (us.size() >= kFewest) medians[tokens] = Median(std::move(us));
  }
  std::vector<ThrottleSample> rest;
  for (const ThrottleSample& s : series) {
    const auto median = medians.find(s.tokens);
    if (median == medians.end()) continue;
    rest.push_back(s);
    if (s.device_us > kHiccup * median->second) {
      rest.back().device_us = median->second;
    }
  }
  return rest;
}

Kinds Sort(const std::vector<ThrottleSample>& series,
           const ThrottleTable& table) {
  const Throttle throttle(table);
  double state = 0;
  Kinds kinds;
  for (const ThrottleSample& sample : series) {
    Kind& kind = kinds[sample.tokens];
    kind.state.push_back(state);
    kind.us.push_back(sample.device_us);
    state = throttle.After(sample.tokens, SimDuration::Micros(sample.device_us),
                           state);
  }
  return kinds;
}

// What a kind of batch takes on a recovered card, and what is added to it on a
// throttled one, as a share.
struct Fit {
  double us = 0;
  double slowdown = 0;
  // How far the states are apart: the slowdown counts for that much.
  double weight = 0;
};

// Times are a line a + b h in the state h at their begin, and by MeanState c (1
// + s (h + heat x) / (1 + x)), where x is c / 2 in time constants.
Fit FitKind(const Kind& kind, double heat, double time_constant) {
  const auto n = static_cast<double>(kind.us.size());
  double x = 0;
  double y = 0;
  double xx = 0;
  double xy = 0;
  for (size_t i = 0; i < kind.us.size(); ++i) {
    x += kind.state[i] / n;
    y += kind.us[i] / n;
    xx += kind.state[i] * kind.state[i] / n;
    xy += kind.state[i] * kind.us[i] / n;
  }
  const double spread = xx - x * x;
  if (spread <= 0) return {};
  const double b = (xy - x * y) / spread;
  const double a = y - b * x;
  const double c = a / (1 + b * heat / (2 * time_constant));
  if (c <= 0) return {};
  return {c, b * (1 + c / (2 * time_constant)) / c, n * spread};
}

// Sum of squared relative errors where batches are slowed down by that much,
// what they take on a recovered card being free.
double ErrorOf(const Kind& kind, const Throttle& throttle, int64_t tokens,
               double us, double slowdown) {
  double ratios = 0;
  double squares = 0;
  for (size_t i = 0; i < kind.us.size(); ++i) {
    const double mean = throttle.MeanState(tokens, us, kind.state[i]);
    const double ratio = kind.us[i] / (1 + slowdown * mean);
    ratios += ratio;
    squares += ratio * ratio;
  }
  const auto n = static_cast<double>(kind.us.size());
  const double mean = ratios / n;
  return squares / (mean * mean) - n;
}

// By tokens.
using Fits = std::map<int64_t, Fit>;

Fits FitKinds(const Kinds& kinds, const ThrottleTable& table) {
  Fits fits;
  for (const auto& [tokens, kind] : kinds) {
    fits[tokens] =
        FitKind(kind, table.ComputeShare(static_cast<double>(tokens)),
                table.time_constant_us);
  }
  return fits;
}

// The two slowdowns that are closest to every kind's, weighted.
void FitSlowdowns(const Fits& fits, ThrottleTable& table) {
  // Normal equations of slowdown = memory (1 - share) + compute share.
  double mm = 0;
  double mc = 0;
  double cc = 0;
  double ms = 0;
  double cs = 0;
  for (const auto& [tokens, fit] : fits) {
    const double compute = table.ComputeShare(static_cast<double>(tokens));
    const double memory = 1 - compute;
    mm += fit.weight * memory * memory;
    mc += fit.weight * memory * compute;
    cc += fit.weight * compute * compute;
    ms += fit.weight * memory * fit.slowdown;
    cs += fit.weight * compute * fit.slowdown;
  }
  const double determinant = mm * cc - mc * mc;
  if (determinant <= 0) return;
  table.memory_slowdown = std::max(0.0, (ms * cc - cs * mc) / determinant);
  table.compute_slowdown = std::max(0.0, (cs * mm - ms * mc) / determinant);
}

double ErrorOf(const Kinds& kinds, const Fits& fits,
               const ThrottleTable& table) {
  const Throttle throttle(table);
  double error = 0;
  for (const auto& [tokens, kind] : kinds) {
    error += ErrorOf(kind, throttle, tokens, fits.at(tokens).us,
                     throttle.Slowdown(tokens));
  }
  return error;
}

}  // namespace

ThrottleTable FitThrottle(absl::Span<const ThrottleSample> series,
                          double memory_tokens) {
  const std::vector<ThrottleSample> samples = WithoutHiccups(series);
  ThrottleTable best;
  double least = std::numeric_limits<double>::infinity();
  for (double constant = kShortest; constant <= kLongest; constant *= kRatio) {
    for (double tokens = memory_tokens + kTokenStep; tokens <= kMostTokens;
         tokens += kTokenStep) {
      ThrottleTable table = {constant, 0, 0, memory_tokens, tokens, {}};
      const Kinds kinds = Sort(samples, table);
      const Fits fits = FitKinds(kinds, table);
      FitSlowdowns(fits, table);
      const double error = ErrorOf(kinds, fits, table);
      if (error >= least) continue;
      least = error;
      best = table;
    }
  }
  if (std::max(best.compute_slowdown, best.memory_slowdown) < kNoSlowdown) {
    return {};
  }
  return best;
}

}  // namespace interleave::sim
