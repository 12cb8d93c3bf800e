#include "sim/output/run_output.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "sim/config/config.h"
#include "sim/config/simulation.pb.h"
#include "sim/kernel_executor/kernel_executor.h"
#include "sim/output/output_folder.h"
#include "sim/output/record_writer.h"
#include "sim/output/summary.h"
#include "sim/run.h"
#include "sim/run_result.h"

namespace interleave::sim {
namespace {

struct Files {
  OutputFile* requests = nullptr;
  // These may be nullptr.
  OutputFile* iterations = nullptr;
  OutputFile* tokens = nullptr;

  // The first error.
  absl::Status status() const {
    for (const OutputFile* file : {requests, iterations, tokens}) {
      if (file != nullptr) RETURN_IF_ERROR(file->status());
    }
    return absl::OkStatus();
  }
  absl::Status Close() {
    for (OutputFile* file : {requests, iterations, tokens}) {
      if (file != nullptr) RETURN_IF_ERROR(file->Close());
    }
    return absl::OkStatus();
  }
};

void WriteTokens(int64_t request, absl::Span<const GeneratedToken> tokens,
                 OutputFile& file) {
  std::string rows;
  for (size_t i = 0; i < tokens.size(); ++i) {
    absl::StrAppend(&rows, request, ",", i, ",", tokens[i].token, ",",
                    tokens[i].logit_gap, "\n");
  }
  file.Append(rows);
}

absl::StatusOr<RunResult> RunWriting(const SimulationConfig& config,
                                     Files& files,
                                     const RunOutputOptions& options) {
  RecordWriter writer(files.requests, files.iterations);
  RunOptions run;
  run.sink = &writer;
  if (files.tokens != nullptr) {
    files.tokens->Append("request_id,index,token,logit_gap\n");
    run.on_tokens = [&](int64_t request,
                        absl::Span<const GeneratedToken> tokens) {
      WriteTokens(request, tokens, *files.tokens);
    };
  }
  run.progress = [&](double share) {
    return files.status().ok() &&
           (!options.progress || options.progress(share));
  };
  absl::StatusOr<RunResult> result = RunSimulation(config, run);
  // Why it was stopped matters more than that it was.
  if (result.ok() || absl::IsCancelled(result.status())) {
    RETURN_IF_ERROR(files.Close());
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
  Files files;
  ASSIGN_OR_RETURN(files.requests, folder->AddFile(absl::StrCat(
                                       options.prefix, "requests.csv")));
  if (options.iterations) {
    ASSIGN_OR_RETURN(files.iterations, folder->AddFile(absl::StrCat(
                                           options.prefix, "iterations.csv")));
  }
  if (config.executor() != SimulationConfig::COST_MODEL) {
    ASSIGN_OR_RETURN(files.tokens, folder->AddFile(absl::StrCat(options.prefix,
                                                                "tokens.csv")));
  }
  ASSIGN_OR_RETURN(RunResult result, RunWriting(config, files, options));
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
  return {"requests.csv", "iterations.csv",   "summary.json",
          "summary.csv",  "config.textproto", "tokens.csv"};
}

}  // namespace interleave::sim
