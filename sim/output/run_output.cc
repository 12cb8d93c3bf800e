#include "sim/output/run_output.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "sim/config/config.h"
#include "sim/config/simulation.pb.h"
#include "sim/output/output_folder.h"
#include "sim/output/record_writer.h"
#include "sim/output/summary.h"
#include "sim/run.h"
#include "sim/run_result.h"

namespace interleave::sim {
namespace {

// Runs with the two files, of which `iterations` may be nullptr.
absl::StatusOr<RunResult> RunWriting(const SimulationConfig& config,
                                     OutputFile& requests,
                                     OutputFile* iterations,
                                     const RunOutputOptions& options) {
  const auto written = [&] {
    return requests.status().ok() &&
           (iterations == nullptr || iterations->status().ok());
  };
  RecordWriter writer(&requests, iterations);
  RunOptions run;
  run.sink = &writer;
  run.progress = [&](double share) {
    return written() && (!options.progress || options.progress(share));
  };
  absl::StatusOr<RunResult> result = RunSimulation(config, run);
  // Why it was stopped matters more than that it was.
  if (result.ok() || absl::IsCancelled(result.status())) {
    RETURN_IF_ERROR(requests.Close());
    if (iterations != nullptr) RETURN_IF_ERROR(iterations->Close());
  }
  return result;
}

}  // namespace

absl::StatusOr<RunResult> RunIntoFolder(const SimulationConfig& config,
                                        OutputFolder* folder,
                                        const RunOutputOptions& options) {
  if (folder == nullptr) {
    RunOptions run;
    run.progress = options.progress;
    return RunSimulation(config, run);
  }
  ASSIGN_OR_RETURN(
      OutputFile* const requests,
      folder->AddFile(absl::StrCat(options.prefix, "requests.csv")));
  OutputFile* iterations = nullptr;
  if (options.iterations) {
    ASSIGN_OR_RETURN(iterations, folder->AddFile(absl::StrCat(
                                     options.prefix, "iterations.csv")));
  }
  ASSIGN_OR_RETURN(RunResult result,
                   RunWriting(config, *requests, iterations, options));
  RETURN_IF_ERROR(AddSummary(SummaryJson(result), options.prefix, *folder));
  RETURN_IF_ERROR(
      folder->AddFile(absl::StrCat(options.prefix, "config.textproto"),
                      ConfigText(result.config)));
  return result;
}

absl::Status AddSummary(const nlohmann::ordered_json& summary,
                        absl::string_view prefix, OutputFolder& folder) {
  RETURN_IF_ERROR(folder.AddFile(absl::StrCat(prefix, "summary.json"),
                                 summary.dump(2) + "\n"));
  return folder.AddFile(absl::StrCat(prefix, "summary.csv"),
                        SummaryCsv(summary));
}

std::vector<std::string> RunOutputNames() {
  return {"requests.csv", "iterations.csv", "summary.json", "summary.csv",
          "config.textproto"};
}

}  // namespace interleave::sim
