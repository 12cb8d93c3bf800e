// One run, from its configuration to its results.
//
//   SimulationConfig config;
//   config.mutable_workload()->mutable_trace()->set_path("trace.csv");
//   ASSIGN_OR_RETURN(const RunResult result, RunSimulation(config, {}));

#ifndef SIM_RUN_H_
#define SIM_RUN_H_

#include <functional>

#include "absl/status/statusor.h"
#include "sim/config/simulation.pb.h"
#include "sim/metrics/metrics.h"
#include "sim/run_result.h"

namespace interleave::sim {

struct RunOptions {
  // Is given every request and iteration as it ends; may be nullptr.
  RecordSink* sink = nullptr;
  // Called now and then with the share of the requests that have arrived, -1
  // when nobody knows how many will.  Return false to stop the run.
  std::function<bool(double share)> progress;
};

// Runs to the end.  The policy must be linked in.  Different runs may go on in
// different threads at a time.
//
// What is wrong with the configuration, or a file that it names, is
// InvalidArgument, NotFound or (no memory left for KV blocks)
// ResourceExhausted; Unimplemented for what the kernels lack; Cancelled where
// `progress` said so; FailedPrecondition for a policy that breaks a rule, and
// for kernels without a GPU that suits them or in a program without kernels.
absl::StatusOr<RunResult> RunSimulation(const SimulationConfig& config,
                                        const RunOptions& options);

}  // namespace interleave::sim

#endif  // SIM_RUN_H_
