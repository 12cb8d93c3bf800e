// One rounding for all cost models, so that a batch of predictions and single
// ones agree to the last bit.

#ifndef SIM_COST_ROUNDING_H_
#define SIM_COST_ROUNDING_H_

#include <cstdint>

#include "base/sim_time.h"

namespace interleave::sim {

// To the nearest nanosecond, halves up.  REQUIRES: 0 <= ns < 2^52.
inline SimDuration RoundNanos(double ns) {
  return SimDuration::Nanos(static_cast<int64_t>(ns + 0.5));
}

}  // namespace interleave::sim

#endif  // SIM_COST_ROUNDING_H_
