// HostOverhead: the host's part of an iteration (scheduling, launching,
// detokenizing) that does not overlap the device's.

#ifndef SIM_COST_HOST_OVERHEAD_H_
#define SIM_COST_HOST_OVERHEAD_H_

#include <cstdint>

#include "base/sim_time.h"

namespace interleave::sim {

struct HostOverhead {
  SimDuration constant;
  SimDuration per_sequence;

  SimDuration Of(int64_t num_sequences) const {
    return constant + per_sequence * num_sequences;
  }
};

}  // namespace interleave::sim

#endif  // SIM_COST_HOST_OVERHEAD_H_
