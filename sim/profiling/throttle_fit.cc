#include "sim/profiling/throttle_fit.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "base/sim_time.h"
#include "sim/cost/throttle.h"

namespace interleave::sim {
namespace {

// Time constants that are tried, in microseconds.
constexpr double kShortest = 2e3;
constexpr double kLongest = 1e6;
constexpr double kRatio = 1.02;
constexpr size_t kFewest = 8;
constexpr double kNoSlowdown = 0.005;
// A time above so many medians is a hiccup, not the card.
constexpr double kHiccup = 1.5;

// What one kind of batch took, and the states in which it began.
struct Kind {
  std::vector<double> state;
  std::vector<double> us;
};

struct Line {
  // Of a recovered card, and the share that a throttled one adds to it.
  double us = 0;
  double slowdown = 0;
  // Sum of squared relative errors.
  double error = 0;
};

double Median(std::vector<double> values) {
  const auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Line FitLine(const Kind& kind) {
  const double most = kHiccup * Median(kind.us);
  double n = 0;
  double x = 0;
  double y = 0;
  double xx = 0;
  double xy = 0;
  for (size_t i = 0; i < kind.us.size(); ++i) {
    if (kind.us[i] > most) continue;
    n += 1;
    x += kind.state[i];
    y += kind.us[i];
    xx += kind.state[i] * kind.state[i];
    xy += kind.state[i] * kind.us[i];
  }
  const double spread = n * xx - x * x;
  const double slope =
      spread > 0 ? std::max(0.0, (n * xy - x * y) / spread) : 0.0;
  Line line;
  line.us = (y - slope * x) / n;
  line.slowdown = slope / line.us;
  for (size_t i = 0; i < kind.us.size(); ++i) {
    if (kind.us[i] > most) continue;
    const double error = (line.us + slope * kind.state[i]) / kind.us[i] - 1;
    line.error += error * error;
  }
  return line;
}

}  // namespace

ThrottleTable FitThrottle(absl::Span<const ThrottleSample> series,
                          double memory_tokens, double compute_tokens) {
  ThrottleTable best;
  double least = std::numeric_limits<double>::infinity();
  for (double constant = kShortest; constant <= kLongest; constant *= kRatio) {
    ThrottleTable table = {constant, 0, 0, memory_tokens, compute_tokens};
    Throttle throttle(table);
    Kind compute;
    Kind memory;
    for (const ThrottleSample& sample : series) {
      const auto tokens = static_cast<double>(sample.tokens);
      if (tokens >= compute_tokens || tokens <= memory_tokens) {
        Kind& kind = tokens >= compute_tokens ? compute : memory;
        kind.state.push_back(throttle.state());
        kind.us.push_back(sample.device_us);
      }
      throttle.Run(sample.tokens, SimDuration::Micros(sample.device_us));
    }
    if (std::min(compute.us.size(), memory.us.size()) < kFewest) return {};
    const Line products = FitLine(compute);
    const Line moves = FitLine(memory);
    if (products.error + moves.error >= least) continue;
    least = products.error + moves.error;
    table.compute_slowdown = products.slowdown;
    table.memory_slowdown = moves.slowdown;
    best = table;
  }
  if (std::max(best.compute_slowdown, best.memory_slowdown) < kNoSlowdown) {
    return {};
  }
  return best;
}

}  // namespace interleave::sim
