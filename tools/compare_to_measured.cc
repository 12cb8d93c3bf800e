// Holds simulations against measurements.
//
// A run against a real server's log:
//
//   bazel run -c opt //tools:compare_to_measured --
//       --simulated=out/requests.csv --measured=requests.jsonl
//
// Runs against runs on kernels, folder by folder (kernels/rate_7/orca against
// simulated/rate_7/orca), with the policies' ranking at each load:
//
//   bazel run -c opt //tools:compare_to_measured --
//       --simulated=simulated --measured=kernels
//
// The iterations of runs with --executor=both, predicted and measured:
//
//   bazel run -c opt //tools:compare_to_measured -- --residuals=kernels

#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/command_line.h"
#include "base/program.h"
#include "base/status_macros.h"
#include "base/text_file.h"
#include "sim/config/simulation.pb.h"
#include "sim/cost/profile_tables.h"
#include "sim/cost/shipped_profiles.h"
#include "sim/cost/text_proto.h"
#include "sim/fidelity/latencies.h"
#include "sim/fidelity/residuals.h"
#include "sim/fidelity/run_comparison.h"

namespace interleave::tools {
namespace {

constexpr char kIterations[] = "iterations.csv";

struct Request {
  std::string simulated;
  std::string measured;
  std::string residuals;
  bool help = false;
};

bool IsFolder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

absl::Status CompareToLog(const Request& request) {
  ASSIGN_OR_RETURN(const std::string simulated_text,
                   ReadTextFile(request.simulated));
  ASSIGN_OR_RETURN(const std::string measured_text,
                   ReadTextFile(request.measured));
  ASSIGN_OR_RETURN(const auto simulated,
                   sim::ReadRunRequests(simulated_text, request.simulated));
  ASSIGN_OR_RETURN(const auto measured,
                   sim::ReadMeasuredRequests(measured_text, request.measured));
  std::cout << measured.size() << " requests measured, " << simulated.size()
            << " simulated\n"
            << sim::ToTable(sim::Compare(sim::LatenciesOf(measured),
                                         sim::LatenciesOf(simulated)));
  return absl::OkStatus();
}

absl::Status CompareFolders(const Request& request) {
  ASSIGN_OR_RETURN(const std::vector<sim::RunPair> pairs,
                   sim::PairRuns(request.measured, request.simulated));
  std::cout << sim::ToTable(pairs) << "\n";
  if (pairs.size() > 1) std::cout << sim::ToText(sim::CompareRankings(pairs));
  return absl::OkStatus();
}

// The profile that the run of a folder predicted with, if it was one.
absl::StatusOr<std::optional<sim::ProfileTables>> ProfileOf(
    const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/config.textproto");
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  RETURN_IF_ERROR(text.status());
  sim::SimulationConfig config;
  RETURN_IF_ERROR(sim::ParseTextProto(*text, path, &config));
  if (!config.cost().has_profile()) return std::nullopt;
  ASSIGN_OR_RETURN(sim::ProfileTables tables,
                   sim::LoadProfile(config.cost().profile()));
  return tables;
}

void Print(const std::string& title,
           const std::vector<sim::IterationResidual>& residuals,
           const std::optional<sim::ProfileTables>& profile) {
  std::cout << title << "\n"
            << sim::ToTable(sim::GroupResiduals(
                   residuals, profile.has_value() ? &*profile : nullptr))
            << "\n";
}

absl::Status ShowResiduals(const std::string& root) {
  ASSIGN_OR_RETURN(const std::vector<std::string> folders,
                   sim::FoldersWith(root, kIterations));
  std::vector<sim::IterationResidual> all;
  std::optional<sim::ProfileTables> profile;
  for (const std::string& name : folders) {
    const std::string folder = absl::StrCat(root, "/", name);
    const std::string path = absl::StrCat(folder, "/", kIterations);
    ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
    ASSIGN_OR_RETURN(const auto residuals, sim::ReadResiduals(text, path));
    ASSIGN_OR_RETURN(profile, ProfileOf(folder));
    Print(folder, residuals, profile);
    all.insert(all.end(), residuals.begin(), residuals.end());
  }
  if (folders.size() > 1) {
    Print(absl::StrCat("All ", folders.size(), " runs"), all, profile);
  }
  return absl::OkStatus();
}

absl::Status Run(const std::vector<std::string>& args) {
  Request request;
  const std::vector<Flag> flags = {
      StringFlag("simulated", "FILE|DIR",
                 "requests.csv of a run of tools:simulate, or a folder with "
                 "runs in it",
                 &request.simulated),
      StringFlag("measured", "FILE|DIR",
                 "a server's log, a JSON object a line with output_toks, "
                 "queued_ts, first_token_ts and last_token_ts in seconds; or a "
                 "folder with runs with --executor=kernels, in the same "
                 "folders below it",
                 &request.measured),
      StringFlag("residuals", "DIR",
                 "a folder with runs with --executor=both: how far each kind "
                 "of iteration is from its prediction",
                 &request.residuals),
      SwitchFlag("help", "prints this", &request.help),
  };
  RETURN_IF_ERROR(ParseFlags(flags, args));
  if (request.help) {
    std::cout << "Holds simulations against measurements.\n\n"
              << FlagHelp(flags);
    return absl::OkStatus();
  }
  if (!request.residuals.empty()) {
    if (!request.simulated.empty() || !request.measured.empty()) {
      return absl::InvalidArgumentError(
          "--residuals stands alone: its runs hold both sides");
    }
    return ShowResiduals(request.residuals);
  }
  if (request.simulated.empty() || request.measured.empty()) {
    return absl::InvalidArgumentError(
        "give --simulated and --measured, both files or both folders; or "
        "--residuals=DIR");
  }
  if (IsFolder(request.simulated) != IsFolder(request.measured)) {
    return absl::InvalidArgumentError(
        "one of --simulated and --measured is a folder and the other is not");
  }
  return IsFolder(request.measured) ? CompareFolders(request)
                                    : CompareToLog(request);
}

}  // namespace
}  // namespace interleave::tools

int main(int argc, char** argv) {
  if (!interleave::EnterUserFolder("compare_to_measured")) return 1;
  const absl::Status status =
      interleave::tools::Run(std::vector<std::string>(argv + 1, argv + argc));
  if (status.ok()) return 0;
  std::cerr << "compare_to_measured: " << status.message() << "\n";
  return 2;
}
