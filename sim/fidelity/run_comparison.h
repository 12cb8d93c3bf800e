// Comparing runs in folders, measured on kernels and simulated: the latencies
// of each pair, and whether policies rank the same.

#ifndef SIM_FIDELITY_RUN_COMPARISON_H_
#define SIM_FIDELITY_RUN_COMPARISON_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "sim/fidelity/latencies.h"

namespace interleave::sim {

// The completed requests of a requests.csv that a run wrote.
absl::StatusOr<std::vector<RequestTimes>> ReadRunRequests(
    absl::string_view text, absl::string_view name);

// Folders below `root` (`root` itself is "") that hold a file of this name, as
// paths below it, sorted.  NotFound where there is none.
absl::StatusOr<std::vector<std::string>> FoldersWith(const std::string& root,
                                                     const std::string& file);

// A policy at one load, measured and simulated, each once or several times.
struct RunPair {
  // "rate_7/orca": the last name is the policy's, what is before it the load's.
  std::string name;
  // How many runs there are in it, or in folders repeat_1 .. below it.
  size_t measured_runs = 0;
  size_t simulated_runs = 0;
  // Mean and P90 of TTFT, TPOT and E2E, on average over the runs.
  std::vector<Deviation> deviations;

  std::string load() const;
  std::string policy() const;
};

// What is below both roots; NotFound where nothing is.
absl::StatusOr<std::vector<RunPair>> PairRuns(
    const std::string& measured_root, const std::string& simulated_root);

// Two policies that the simulation puts the wrong way round.
struct Swap {
  std::string load;
  std::string statistic;
  std::string better;
  std::string worse;
  // (worse - better) / better, measured.
  double measured_gap = 0;
};

// Policies of each load in the order of each statistic, smallest first.
std::vector<Swap> CompareRankings(absl::Span<const RunPair> pairs);

// Tables for a person.
std::string ToTable(absl::Span<const RunPair> pairs);
std::string ToText(absl::Span<const Swap> swaps);

}  // namespace interleave::sim

#endif  // SIM_FIDELITY_RUN_COMPARISON_H_
