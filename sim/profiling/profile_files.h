// The files of a profile: what profile_tables.h reads, from what was measured.

#ifndef SIM_PROFILING_PROFILE_FILES_H_
#define SIM_PROFILING_PROFILE_FILES_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "sim/profiling/profiler.h"

namespace interleave::sim {

// "gpu" and "NVIDIA H200".
using ProfileMeta = std::vector<std::pair<std::string, std::string>>;

// Texts by file name: dense.csv, per_sequence.csv, attention.csv, skew.csv,
// layers.csv, host_overhead.csv, meta.yaml, and throttle.csv where the card is
// throttled at all.  A decode iteration costs what the next
// larger of `graph_sizes` costs, which becomes two points a graph in dense.csv.
std::map<std::string, std::string> ProfileFiles(
    const ProfileData& data, absl::Span<const int32_t> graph_sizes,
    const ProfileMeta& meta);

// check.csv: batch,measured_us,predicted_us,error_percent,outside_grid.
std::string CheckCsv(absl::Span<const CheckRow> rows);

}  // namespace interleave::sim

#endif  // SIM_PROFILING_PROFILE_FILES_H_
