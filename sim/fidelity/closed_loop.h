// Real servers under a fixed number of users, as published, and the same load
// simulated.

#ifndef SIM_FIDELITY_CLOSED_LOOP_H_
#define SIM_FIDELITY_CLOSED_LOOP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "sim/config/simulation.pb.h"

namespace interleave::sim {

// Means over all requests of a run, or relative errors of them.
struct MeanLatency {
  double ttft = 0;
  double tpot = 0;
};

// Lengths are uniform in [min, max].
struct TokenRange {
  int32_t min = 0;
  int32_t max = 0;
};

// One measurement.  Numbers that the publication does not state are 0.
struct ClosedLoopPoint {
  std::string name;
  std::string model;
  std::string precision;
  std::string engine;
  int32_t tensor_parallel = 1;
  int32_t users = 1;
  TokenRange prompt;
  TokenRange output;
  int64_t num_requests = 0;
  int32_t max_num_seqs = 0;
  int32_t max_num_batched_tokens = 0;
  // In milliseconds.
  MeanLatency measured;
  // What two published estimators say of it, where they say anything.
  std::optional<MeanLatency> aiconfigurator;
  std::optional<MeanLatency> aisimulate;
};

// Reads closed_loop/h100_vllm.csv: a row for each metric of a measurement
// (README.md says where it is published).  InvalidArgument names `name`, the
// line and what is wrong.
absl::StatusOr<std::vector<ClosedLoopPoint>> ReadClosedLoopPoints(
    absl::string_view text, absl::string_view name);

// The file, among those of this package, with the settings of the server that
// was measured; empty where its settings are not known (see docs/fidelity.md).
std::string ClosedLoopServerFile(const ClosedLoopPoint& point);

// What to simulate: `server` (model, device, cost, policy, cache) with the load
// of a point.  What the publication does not state is
//   10 x users requests and 1,024 sequences: defaults of the client and vLLM;
//   prompt + 1,500 + users batched tokens: what the publisher's own tool writes
//   into a server's command line.
// KV blocks are what fits beside weights, activations and the workspace of a
// sampler that sorts the logits of max_num_seqs sequences, which vLLM runs when
// it measures how much memory is left.
//
// The host's constant per iteration (server.cost.host_overhead.constant_us) is
// also what a request spends in the front end before it arrives: users come
// back so long after an answer, and start so far apart.
absl::StatusOr<SimulationConfig> ClosedLoopRun(const ClosedLoopPoint& point,
                                               const SimulationConfig& server);

// In milliseconds, the front end included.
absl::StatusOr<MeanLatency> SimulateClosedLoop(const ClosedLoopPoint& point,
                                               const SimulationConfig& server);

struct ClosedLoopResult {
  ClosedLoopPoint point;
  MeanLatency simulated;
};

// Relative errors over a group of results.
struct ClosedLoopErrors {
  std::string group;
  int64_t points = 0;
  MeanLatency mean_absolute;
  MeanLatency bias;
};

// Of each model, then of each model at each degree of tensor parallelism, in
// order of their names.
std::vector<ClosedLoopErrors> SummarizeClosedLoop(
    absl::Span<const ClosedLoopResult> results);

// Of this simulation and of the two estimators over the points on which all
// three say something, by model.
std::vector<ClosedLoopErrors> CompareEstimators(
    absl::Span<const ClosedLoopResult> results);

// Tables for a person.
std::string ToTable(absl::Span<const ClosedLoopResult> results);
std::string ToTable(absl::Span<const ClosedLoopErrors> errors);

}  // namespace interleave::sim

#endif  // SIM_FIDELITY_CLOSED_LOOP_H_
