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
// before the first: those of as many tokens are alike; some have at most
// `memory_tokens`, some are large.  Time constants, and numbers of tokens from
// which on a batch multiplies matrices all the time, are tried out: for each
// pair, what a kind of batch took is a line in the state, and the two slowdowns
// fit the slopes of all lines best.  The pair with the least squared relative
// error is taken.  No throttling (all zero) where there are no two kinds with
// eight samples and more, or none slows down by half a percent.
ThrottleTable FitThrottle(absl::Span<const ThrottleSample> series,
                          double memory_tokens);

}  // namespace interleave::sim

#endif  // SIM_PROFILING_THROTTLE_FIT_H_
