// The flags of tools/simulate, and the configuration they make.

#ifndef TOOLS_SIMULATE_FLAGS_H_
#define TOOLS_SIMULATE_FLAGS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "sim/config/simulation.pb.h"

namespace interleave::tools {

struct SimulateRequest {
  sim::SimulationConfig config;
  // Runs with config.seed(), config.seed() + 1, ...
  int num_seeds = 1;
  // Empty: print only.
  std::string out;
  bool overwrite = false;
  bool write_iterations = true;
  bool list = false;
  bool help = false;
};

// The file of --config first, then the flags, then --set in order; whatever
// comes later wins.  InvalidArgument or NotFound with what to do.
absl::StatusOr<SimulateRequest> ParseSimulateFlags(
    absl::Span<const std::string> args);

std::string SimulateHelp();

}  // namespace interleave::tools

#endif  // TOOLS_SIMULATE_FLAGS_H_
