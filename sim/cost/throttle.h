// Throttle: how much slower a card is for what it has just done.
//
// A card that may draw only so much power lowers its clock while it multiplies
// large matrices, and raises it again within some 100 ms of smaller work. On an
// H200 a batch of 1,024 prompt tokens takes up to 25% longer in a row of such
// batches than after decodes, and decodes right after them up to 8% longer than
// later; a batch whose last tile of 128 tokens is nearly empty draws less, and
// is slowed down less. A state between 0 (recovered) and 1 (throttled) follows
// the work, first order, with one time constant; what a batch takes grows in
// proportion to the state's mean while it runs. Decodes of many sequences draw
// more than those of few, and keep a card from recovering entirely.

#ifndef SIM_COST_THROTTLE_H_
#define SIM_COST_THROTTLE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/sim_time.h"
#include "sim/cost/batch_shape.h"

namespace interleave::sim {

struct ThrottleTable {
  // Of the state; 0: nothing is ever throttled.
  double time_constant_us = 0;
  // By what share of its time a batch is slower on a throttled card than on a
  // recovered one: one that multiplies matrices all the time, and one that
  // moves memory all the time.
  double compute_slowdown = 0;
  double memory_slowdown = 0;
  // Batches with prompt chunks of up to so many tokens move memory, of so many
  // and more multiply matrices; in between, shares of both on a line.
  // REQUIRES: memory_tokens < compute_tokens where time_constant_us > 0.
  double memory_tokens = 0;
  double compute_tokens = 0;
  // The state to which batches of 64 tokens and more lead that move memory, in
  // [0, 1); fewer tokens lead to less, in proportion.
  double memory_state = 0;

  // Of a batch of so many tokens, in [0, 1].
  // REQUIRES: time_constant_us > 0.
  double ComputeShare(double tokens) const {
    return std::clamp(
        (tokens - memory_tokens) / (compute_tokens - memory_tokens), 0.0, 1.0);
  }
  // The state to which such batches lead, in [0, 1].
  // REQUIRES: time_constant_us > 0.
  double StateUnder(double tokens) const {
    constexpr double kFullTokens = 64;
    const double share = ComputeShare(tokens);
    return share +
           (1 - share) * memory_state * std::min(1.0, tokens / kFullTokens);
  }
};

class Throttle {
 public:
  // Never throttles.
  Throttle() = default;
  explicit Throttle(const ThrottleTable& table)
      : memory_tokens_(static_cast<int64_t>(table.memory_tokens)) {
    if (table.time_constant_us <= 0) return;
    per_us_ = 1 / table.time_constant_us;
    const auto last = static_cast<int64_t>(table.compute_tokens) + 1;
    for (int64_t tokens = 0; tokens <= last; ++tokens) {
      by_tokens_.push_back(LoadOf(table, tokens));
    }
  }

  // What `tokens` below are of a batch: decodes alone, however many, are no
  // more than move memory.
  int64_t TokensOf(int64_t tokens_beside_prefill, int64_t decodes) const {
    return tokens_beside_prefill > 0 ? tokens_beside_prefill
                                     : std::min(decodes, memory_tokens_);
  }
  int64_t TokensOf(const BatchShape& shape) const {
    return TokensOf(shape.tokens_beside_prefill(), shape.decode.count);
  }
  int64_t OfDecodes(int64_t count) const { return TokensOf(0, count); }

  // What is added to a batch's time on a throttled card, as a share of it.
  double Slowdown(int64_t tokens) const {
    return per_us_ == 0 ? 0 : Of(tokens).slowdown;
  }

  // The state's mean while a batch runs that begins in `state` and would take
  // `us` microseconds on a recovered card. A batch takes 1 + Slowdown x mean
  // times as long.
  double MeanState(int64_t tokens, double us, double state) const {
    if (per_us_ == 0) return 0;
    const double target = Of(tokens).target;
    if (state == 0 && target == 0) return 0;
    return target + (state - target) * MeanLeft(us * per_us_);
  }

  // The state after such a batch has run for so long.
  double After(int64_t tokens, SimDuration device, double state) const {
    return per_us_ == 0 ? 0 : Follow(Of(tokens).target, device, state);
  }
  // The state after the device has had nothing to do for so long.
  double AfterIdle(SimDuration time, double state) const {
    return state == 0 ? 0 : Follow(0, time, state);
  }

 private:
  // A state that adds less than a nanosecond to 10 ms is none.
  static constexpr double kNone = 1e-6;

  struct Load {
    // Where the state goes.
    double target;
    double slowdown;
  };

  static Load LoadOf(const ThrottleTable& table, int64_t tokens) {
    Load load;
    const double share = table.ComputeShare(static_cast<double>(tokens));
    load.target = table.StateUnder(static_cast<double>(tokens));
    load.slowdown = table.memory_slowdown +
                    share * (table.compute_slowdown - table.memory_slowdown);
    return load;
  }

  const Load& Of(int64_t tokens) const {
    return by_tokens_[std::min(static_cast<size_t>(tokens),
                               by_tokens_.size() - 1)];
  }

  // exp(-x), and its mean from 0 to x: reciprocals of the first terms of the
  // series of their own reciprocals.  Exact arithmetic, so that every machine
  // gets the same bits; off by a few hundredths at most.
  static double Left(double x) {
    return 1 / (1 + x * (1 + x * (1.0 / 2 + x * (1.0 / 6))));
  }
  static double MeanLeft(double x) {
    return 1 / (1 + x * (1.0 / 2 + x * (1.0 / 12)));
  }

  double Follow(double target, SimDuration time, double state) const {
    const double next =
        target + (state - target) * Left(time.micros() * per_us_);
    return next < kNone ? 0 : next;
  }

  // Time constants a microsecond; 0: nothing is ever throttled.
  double per_us_ = 0;
  int64_t memory_tokens_ = 0;
  std::vector<Load> by_tokens_;
};

}  // namespace interleave::sim

#endif  // SIM_COST_THROTTLE_H_
