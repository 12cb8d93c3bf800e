// Throttle: how much slower a card is for what it has just done.
//
// A card that may draw only so much power lowers its clock while it multiplies
// large matrices, and raises it again within some 100 ms of smaller work. On an
// H200 a batch of 1,024 prompt tokens takes 10 to 13% longer in a row of such
// batches than after decodes, and decodes right after it 4 to 8% longer than
// later. A state between 0 (recovered) and 1 (throttled) follows the work,
// first order, with one time constant; what a batch takes grows in proportion
// to the state in which it begins.

#ifndef SIM_COST_THROTTLE_H_
#define SIM_COST_THROTTLE_H_

#include <algorithm>
#include <cstdint>

#include "base/sim_time.h"

namespace interleave::sim {

struct ThrottleTable {
  // Of the state; 0: nothing is ever throttled.
  double time_constant_us = 0;
  // By what share of its time a batch is slower on a throttled card than on a
  // recovered one: one that multiplies matrices all the time, and one that
  // moves memory all the time.
  double compute_slowdown = 0;
  double memory_slowdown = 0;
  // Batches of up to so many tokens move memory, batches of so many and more
  // multiply matrices; in between, shares of both on a line.
  // REQUIRES: memory_tokens < compute_tokens where time_constant_us > 0.
  double memory_tokens = 0;
  double compute_tokens = 0;

  friend bool operator==(const ThrottleTable&, const ThrottleTable&) = default;
};

class Throttle {
 public:
  // Never throttles.
  Throttle() = default;
  explicit Throttle(const ThrottleTable& table) : table_(table) {}

  // What a batch of so many tokens that begins now takes, over what it takes on
  // a recovered card.
  double Slowdown(int64_t tokens) const {
    if (state_ == 0) return 1;
    const double compute = ComputeShare(tokens);
    return 1 + state_ * (table_.memory_slowdown +
                         compute * (table_.compute_slowdown -
                                    table_.memory_slowdown));
  }

  // A batch has run.
  void Run(int64_t tokens, SimDuration device) {
    if (table_.time_constant_us > 0) Follow(ComputeShare(tokens), device);
  }
  // The device has had nothing to do.
  void Idle(SimDuration time) {
    if (state_ > 0) Follow(0, time);
  }

  double state() const { return state_; }
  const ThrottleTable& table() const { return table_; }

 private:
  // A state that adds less than a nanosecond to 10 ms is none.
  static constexpr double kNone = 1e-6;

  double ComputeShare(int64_t tokens) const {
    return std::clamp((static_cast<double>(tokens) - table_.memory_tokens) /
                          (table_.compute_tokens - table_.memory_tokens),
                      0.0, 1.0);
  }

  // One step of the implicit Euler method: exact arithmetic, so that every
  // machine gets the same bits, and stable for any step.
  void Follow(double target, SimDuration time) {
    const double step = time.micros() / table_.time_constant_us;
    state_ = (state_ + target * step) / (1 + step);
    if (state_ < kNone) state_ = 0;
  }

  ThrottleTable table_;
  double state_ = 0;
};

}  // namespace interleave::sim

#endif  // SIM_COST_THROTTLE_H_
