// Runs a simulation and writes what it gives: requests.csv, iterations.csv,
// summary.json, summary.csv and config.textproto; where kernels run, tokens.csv
// with what each request generated.

#ifndef SIM_OUTPUT_RUN_OUTPUT_H_
#define SIM_OUTPUT_RUN_OUTPUT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "sim/config/simulation.pb.h"
#include "sim/output/output_folder.h"
#include "sim/run_result.h"

namespace interleave::sim {

struct RunOutputOptions {
  // Where in the folder: "" or a folder that ends in "/".
  std::string prefix;
  // One line an iteration may be much.
  bool iterations = true;
  // As in RunOptions.
  std::function<bool(double share)> progress;
};

// Runs, writing into `folder` where it is not nullptr.  Stops early, with
// DataLoss, when the disk is full.
absl::StatusOr<RunResult> RunIntoFolder(const SimulationConfig& config,
                                        OutputFolder* folder,
                                        const RunOutputOptions& options);

// Writes summary.json and summary.csv.
absl::Status AddSummary(const nlohmann::ordered_json& summary,
                        absl::string_view prefix, OutputFolder& folder);

// What AddSummary and RunIntoFolder write, for OutputFolder::Options.
std::vector<std::string> RunOutputNames();

}  // namespace interleave::sim

#endif  // SIM_OUTPUT_RUN_OUTPUT_H_
