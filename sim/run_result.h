// RunResult: all that is known of a run once it has ended.

#ifndef SIM_RUN_RESULT_H_
#define SIM_RUN_RESULT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "sim/config/simulation.pb.h"
#include "sim/cost/cost_model.h"
#include "sim/metrics/metrics.h"
#include "sim/utilization.h"

namespace interleave::sim {

struct RunResult {
  // Fully resolved.
  SimulationConfig config;
  Metrics metrics;
  // Requests that arrived: completed + rejected.
  int64_t submitted = 0;
  // Over all replicas; the peak counts blocks that requests hold, not those
  // that the prefix cache merely keeps.
  int64_t kv_blocks_total = 0;
  int64_t kv_blocks_peak = 0;
  Utilization utilization;
  CostModelStats cost;
  std::string cost_description;
  // Where the number of blocks comes from.
  std::string kv_memory;
  // What a person should know of the input: requests sorted, lines dropped.
  std::vector<std::string> notices;
  // Of the order and times of all events: equal for equal runs.
  uint64_t fingerprint = 0;

  // Of the simulator itself; these alone differ between equal runs.
  double wall_seconds = 0;
  int64_t peak_rss_bytes = 0;
};

}  // namespace interleave::sim

#endif  // SIM_RUN_RESULT_H_
