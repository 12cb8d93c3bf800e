// One run, from its configuration to its results.
//
//   SimulationConfig config;
//   config.mutable_workload()->mutable_trace()->set_path("trace.csv");
//   ASSIGN_OR_RETURN(const RunResult result, RunSimulation(config, {}));

#ifndef SIM_RUN_H_
#define SIM_RUN_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "sim/config/simulation.pb.h"
#include "sim/kernel_executor/kernel_executor.h"
#include "sim/metrics/metrics.h"
#include "sim/run_result.h"

namespace interleave::sim {

struct RunOptions {
  // Is given every request and iteration as it ends; may be nullptr.
  RecordSink* sink = nullptr;
  // Called now and then with the share of the requests that have arrived, -1
  // when nobody knows how many will.  Return false to stop the run.
  std::function<bool(double share)> progress;
  // Where kernels run: is given the number of each request that ends, and the
  // tokens it generated.
  std::function<void(int64_t, absl::Span<const GeneratedToken>)> on_tokens;
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
