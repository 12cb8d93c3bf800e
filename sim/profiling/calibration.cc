#include "sim/profiling/calibration.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/sim_time.h"
#include "sim/cost/level.h"
#include "sim/cost/throttle.h"

namespace interleave::sim {
namespace {

// Time constants that are tried, in microseconds, and numbers of tokens above
// memory_tokens; then those between, next to the best.
constexpr double kShortest = 5e3;
constexpr double kLongest = 3e5;
constexpr double kRatio = 1.25;
constexpr double kFineRatio = 1.05;
constexpr double kTokenStep = 128;
constexpr double kFineTokenStep = 64;
constexpr double kMostTokens = 1024;
constexpr double kStateStep = 0.05;
constexpr int kMostStateSteps = 12;
// Samples with prompts of one size that make a bin of its own.
constexpr int64_t kOwn = 32;
constexpr int64_t kNeverOwn = std::numeric_limits<int64_t>::max();
// Samples of others, and of decodes alone, that make one.
struct BinSizes {
  size_t prompts;
  size_t decodes;
};
// Slowdowns show in what samples of a bin have apart, and need many of them.
constexpr BinSizes kToTellSlowdowns = {64, 256};
// Levels need few: those of small sizes are up to 8% apart, and a sample is off
// by 4%.  Decodes alone change slowly: many in a row have the same sequences,
// and are off by what these are off by, up to 1%; so that a level says what is
// common to several, it takes more of them.
constexpr BinSizes kToTellLevels = {16, 96};
// How many times as long as expected is a hiccup.
constexpr double kHiccup = 2;
// Rounds after which levels and slowdowns, which follow from each other, have
// settled.
constexpr int kSettled = 4;
constexpr double kNoSlowdown = 0.005;

// Which samples share a level.
struct Bins {
  // By sample; `count` for one that counts for the state only.
  std::vector<size_t> of_sample;
  size_t count = 0;
};

struct Sized {
  double size;
  size_t sample;
};

// The bins of samples of one kind, with the sizes they are for.
struct KindBins {
  std::vector<std::pair<double, size_t>> by_last;  // last size, bin
  std::map<double, size_t> own;                    // size, bin

  // The next larger one where a size has none.  REQUIRES: there are any.
  size_t BinOf(double size) const {
    const auto found = own.find(size);
    if (found != own.end()) return found->second;
    for (const auto& [last, bin] : by_last) {
      if (size <= last) return bin;
    }
    if (!by_last.empty()) return by_last.back().second;
    const auto next = own.lower_bound(size);
    return next == own.end() ? own.rbegin()->second : next->second;
  }
};

// `own`: samples of one size that make a bin; `of_bin`: of others.
KindBins Sort(std::vector<Sized> samples, int64_t own, size_t of_bin,
              Bins* bins) {
  std::stable_sort(
      samples.begin(), samples.end(),
      [](const Sized& a, const Sized& b) { return a.size < b.size; });
  KindBins kind;
  std::map<double, int64_t> counts;
  for (const Sized& s : samples) ++counts[s.size];
  size_t in_bin = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto& [size, sample] = samples[i];
    if (counts[size] >= own) {
      const auto [bin, fresh] = kind.own.insert({size, bins->count});
      if (fresh) ++bins->count;
      bins->of_sample[sample] = bin->second;
      continue;
    }
    const bool new_size =
        kind.by_last.empty() || kind.by_last.back().first != size;
    const bool enough_left = 2 * (samples.size() - i) >= of_bin;
    if (kind.by_last.empty() || (in_bin >= of_bin && new_size && enough_left)) {
      kind.by_last.push_back({size, bins->count++});
      in_bin = 0;
    }
    ++in_bin;
    kind.by_last.back().first = size;
    bins->of_sample[sample] = kind.by_last.back().second;
  }
  return kind;
}

// A sample in a table's states.
struct Row {
  size_t bin;
  double table_us;
  double ratio;  // device over table
  // The state's mean, times the share of memory and of matrix products.
  double memory;
  double compute;
};

// What of a sample's time is slowed down as matrix products are.
double ComputeShareOf(const SeriesSample& s, const ThrottleTable& table) {
  if (s.tokens_beside_prefill == 0) return 0;
  const double beside_decodes =
      1 - std::min(s.decode_attention_us, s.table_us) / s.table_us;
  return beside_decodes *
         table.ComputeShare(static_cast<double>(s.tokens_beside_prefill));
}

std::vector<Row> RowsOf(absl::Span<const SeriesSample> series, const Bins& bins,
                        const ThrottleTable& table) {
  const Throttle throttle(table);
  std::vector<Row> rows;
  double state = 0;
  for (size_t i = 0; i < series.size(); ++i) {
    const SeriesSample& s = series[i];
    const int64_t tokens =
        throttle.TokensOf(s.tokens_beside_prefill, s.decodes);
    const double mean = throttle.MeanState(tokens, s.table_us, state);
    if (bins.of_sample[i] < bins.count) {
      const double share = ComputeShareOf(s, table);
      rows.push_back({bins.of_sample[i], s.table_us, s.device_us / s.table_us,
                      mean * (1 - share), mean * share});
    }
    state = throttle.After(tokens, SimDuration::Micros(s.device_us), state);
  }
  return rows;
}

double Slower(const Row& row, const ThrottleTable& table) {
  return 1 + table.memory_slowdown * row.memory +
         table.compute_slowdown * row.compute;
}

// By which the samples of a bin take together what the tables say, the
// slowdowns being known: that, not each by itself, is what requests wait for.
std::vector<double> LevelsOf(const std::vector<Row>& rows, size_t count,
                             const ThrottleTable& table) {
  std::vector<double> said_us(count, 0);
  std::vector<double> took_us(count, 0);
  for (const Row& row : rows) {
    said_us[row.bin] += row.table_us * Slower(row, table);
    took_us[row.bin] += row.table_us * row.ratio;
  }
  std::vector<double> levels(count, 1);
  for (size_t i = 0; i < count; ++i) {
    if (said_us[i] > 0) levels[i] = took_us[i] / said_us[i];
  }
  return levels;
}

// Of the slowdowns, by what the samples of a bin have apart: their mean says
// nothing, since the level, which is known but for that, takes it up. A sample
// counts by its time, since that is what requests wait for: there are many
// short ones, of few decodes.
void FitSlowdowns(const std::vector<Row>& rows,
                  const std::vector<double>& levels, ThrottleTable* table) {
  struct Means {
    double us = 0;
    double memory = 0;
    double compute = 0;
    double ratio = 0;
  };
  std::vector<Means> means(levels.size());
  for (const Row& row : rows) {
    Means& mean = means[row.bin];
    mean.us += row.table_us;
    mean.memory += row.table_us * row.memory;
    mean.compute += row.table_us * row.compute;
    mean.ratio += row.table_us * row.ratio / levels[row.bin];
  }
  double mm = 0;
  double mc = 0;
  double cc = 0;
  double my = 0;
  double cy = 0;
  for (const Row& row : rows) {
    const Means& mean = means[row.bin];
    const double m = row.memory - mean.memory / mean.us;
    const double c = row.compute - mean.compute / mean.us;
    const double y = row.ratio / levels[row.bin] - mean.ratio / mean.us;
    mm += row.table_us * m * m;
    mc += row.table_us * m * c;
    cc += row.table_us * c * c;
    my += row.table_us * m * y;
    cy += row.table_us * c * y;
  }
  const double determinant = mm * cc - mc * mc;
  if (determinant <= 0) return;
  table->memory_slowdown = std::max(0.0, (my * cc - cy * mc) / determinant);
  table->compute_slowdown = std::max(0.0, (cy * mm - my * mc) / determinant);
}

double ErrorOf(const std::vector<Row>& rows, const std::vector<double>& levels,
               const ThrottleTable& table) {
  double error = 0;
  for (const Row& row : rows) {
    const double off = row.ratio - levels[row.bin] * Slower(row, table);
    error += row.table_us * off * off;
  }
  return error;
}

// The steps between sizes of one bin and of the next.
Level LevelOf(const KindBins& kind, const std::vector<double>& levels) {
  std::set<int64_t> lasts;
  for (const auto& [last, bin] : kind.by_last) {
    lasts.insert(static_cast<int64_t>(last));
  }
  for (const auto& [size, bin] : kind.own) {
    const auto own = static_cast<int64_t>(size);
    if (own > 1) lasts.insert(own - 1);
    lasts.insert(own);
  }
  std::vector<Level::Step> steps;
  for (const int64_t last : lasts) {
    steps.push_back({last, levels[kind.BinOf(static_cast<double>(last))]});
  }
  return Level(std::move(steps));
}

// A series in bins.
class Binned {
 public:
  Binned(absl::Span<const SeriesSample> series, const BinSizes& sizes)
      : series_(series) {
    bins_.of_sample.assign(series.size(), std::numeric_limits<size_t>::max());
    std::vector<Sized> prompts;
    std::vector<Sized> decodes;
    for (size_t i = 0; i < series.size(); ++i) {
      const SeriesSample& s = series[i];
      if (!(s.table_us > 0) || s.device_us > kHiccup * s.table_us) continue;
      if (s.tokens_beside_prefill > 0) {
        prompts.push_back({static_cast<double>(s.tokens_beside_prefill), i});
      } else {
        decodes.push_back({static_cast<double>(s.decodes), i});
      }
    }
    for (const Sized& s : decodes) {
      if (s.size != decodes[0].size) tells_memory_state_ = true;
    }
    prompts_ = Sort(std::move(prompts), kOwn, sizes.prompts, &bins_);
    decodes_ = Sort(std::move(decodes), kNeverOwn, sizes.decodes, &bins_);
  }

  // Fills in the slowdowns of a table, and returns the error that is left.
  double FitSlowdownsOf(ThrottleTable* table) const {
    const std::vector<Row> rows = RowsOf(series_, bins_, *table);
    std::vector<double> levels(bins_.count, 1);
    for (int round = 0; round < kSettled; ++round) {
      FitSlowdowns(rows, levels, table);
      levels = LevelsOf(rows, bins_.count, *table);
    }
    return ErrorOf(rows, levels, *table);
  }

  Calibration With(const ThrottleTable& table) const {
    const std::vector<double> levels =
        LevelsOf(RowsOf(series_, bins_, table), bins_.count, table);
    return {table, LevelOf(prompts_, levels), LevelOf(decodes_, levels)};
  }

  // Whether decodes alone are of several sizes.
  bool tells_memory_state() const { return tells_memory_state_; }

 private:
  const absl::Span<const SeriesSample> series_;
  Bins bins_;
  KindBins prompts_;
  KindBins decodes_;
  bool tells_memory_state_ = false;
};

}  // namespace

Calibration CalibrateLevels(absl::Span<const SeriesSample> series) {
  return Binned(series, kToTellLevels).With({});
}

Calibration Calibrate(absl::Span<const SeriesSample> series,
                      double memory_tokens) {
  const Binned binned(series, kToTellSlowdowns);
  ThrottleTable best;
  double least = std::numeric_limits<double>::infinity();
  const auto try_out = [&](double constant, double compute_tokens,
                           double memory_state) {
    ThrottleTable table = {constant,       0,           0, memory_tokens,
                           compute_tokens, memory_state};
    const double error = binned.FitSlowdownsOf(&table);
    if (error >= least) return;
    least = error;
    best = table;
  };
  for (double constant = kShortest; constant <= kLongest; constant *= kRatio) {
    for (double tokens = memory_tokens + kTokenStep; tokens <= kMostTokens;
         tokens += kTokenStep) {
      try_out(constant, tokens, 0);
    }
  }
  const ThrottleTable near = best;
  const int states = binned.tells_memory_state() ? kMostStateSteps : 0;
  for (double constant = near.time_constant_us / kRatio;
       constant < near.time_constant_us * kRatio; constant *= kFineRatio) {
    for (const double more : {-kFineTokenStep, 0.0, kFineTokenStep}) {
      for (int i = 0; i <= states; ++i) {
        try_out(constant, near.compute_tokens + more, kStateStep * i);
      }
    }
  }
  return std::max(best.compute_slowdown, best.memory_slowdown) < kNoSlowdown
             ? CalibrateLevels(series)
             : Binned(series, kToTellLevels).With(best);
}

}  // namespace interleave::sim
