// FitThrottle: a card's ThrottleTable from iterations as it ran them.

#ifndef SIM_PROFILING_THROTTLE_FIT_H_
#define SIM_PROFILING_THROTTLE_FIT_H_

#include <cstdint>

#include "absl/types/span.h"
#include "sim/cost/throttle.h"

namespace interleave::sim {

struct ThrottleSample {
  int64_t tokens = 0;
  double device_us = 0;
};

// From iterations that ran one after the other, on a card that had recovered
// before the first: prompts of `compute_tokens` and more, all alike, and
// decodes of up to `memory_tokens`, all alike.  For each time constant, both
// kinds' times are lines in the state; the constant with the least squared
// relative error is taken.  No throttling (all zero) where there are fewer than
// eight of a kind, or neither kind slows down by half a percent.
ThrottleTable FitThrottle(absl::Span<const ThrottleSample> series,
                          double memory_tokens, double compute_tokens);

}  // namespace interleave::sim

#endif  // SIM_PROFILING_THROTTLE_FIT_H_
