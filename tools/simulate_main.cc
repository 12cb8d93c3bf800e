#include "tools/simulate_main.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "base/command_line.h"
#include "base/parallel_for.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "scheduler/registry.h"
#include "sim/config/config.h"
#include "sim/config/simulation.pb.h"
#include "sim/cost/shipped_profiles.h"
#include "sim/cost/specs.h"
#include "sim/output/output_folder.h"
#include "sim/output/progress_bar.h"
#include "sim/output/run_output.h"
#include "sim/output/summary.h"
#include "sim/run_result.h"
#include "tools/simulate_flags.h"

namespace interleave::tools {
namespace {

using Json = ::nlohmann::ordered_json;

constexpr char kSeedsFolder[] = "seeds";

template <typename Entry>
void ListEntries(const char* title, const std::vector<Entry>& entries,
                 std::ostream& out) {
  size_t width = 0;
  for (const Entry& entry : entries) {
    width = std::max(width, entry.name.size());
  }
  out << title << "\n";
  for (const Entry& entry : entries) {
    out << "  " << entry.name << std::string(width + 2 - entry.name.size(), ' ')
        << entry.description << "\n";
  }
}

void List(std::ostream& out) {
  ListEntries("Policies (--policy)", scheduler::RegisteredPolicies(), out);
  out << "\n";
  ListEntries("Models (--model)", sim::ListModels(), out);
  out << "\n";
  ListEntries("Devices (--device)", sim::ListDevices(), out);
  out << "\n";
  ListEntries("Profiles (--profile)", sim::ListProfiles(), out);
}

// The runs of one request, one a seed, and how far each has come.
class Runs {
 public:
  Runs(const SimulateRequest& request, const SimulateEnvironment& environment)
      : request_(request),
        environment_(environment),
        shares_(static_cast<size_t>(request.num_seeds)),
        bar_(environment.show_progress ? environment.err : nullptr) {
    for (int i = 0; i < request.num_seeds; ++i) {
      results_.emplace_back(absl::UnknownError("it has not run"));
    }
  }

  // The results of all seeds, or the error of the first that failed.
  absl::StatusOr<std::vector<sim::RunResult>> Run(sim::OutputFolder* folder) {
    // Runs on a GPU take turns, so that each has its memory and its time alone.
    const size_t threads =
        request_.config.executor() == sim::SimulationConfig::COST_MODEL ? 0 : 1;
    ParallelFor(results_.size(), threads, [&](size_t i) { RunOne(i, folder); });
    std::vector<sim::RunResult> results;
    for (absl::StatusOr<sim::RunResult>& result : results_) {
      if (!result.ok() && !absl::IsCancelled(result.status())) {
        return result.status();
      }
    }
    for (absl::StatusOr<sim::RunResult>& result : results_) {
      if (!result.ok()) return result.status();
      results.push_back(*std::move(result));
    }
    return results;
  }

 private:
  void RunOne(size_t i, sim::OutputFolder* folder) {
    sim::SimulationConfig config = request_.config;
    config.set_seed(config.seed() + i);
    sim::RunOutputOptions options;
    options.iterations = request_.write_iterations;
    if (results_.size() > 1) {
      options.prefix = absl::StrCat(kSeedsFolder, "/", config.seed(), "/");
    }
    options.progress = [this, i](double share) { return Progress(i, share); };
    results_[i] = sim::RunIntoFolder(config, folder, options);
    if (!results_[i].ok()) failed_ = true;
  }

  bool Progress(size_t i, double share) {
    shares_[i] = share;
    double sum = 0;
    for (const std::atomic<double>& each : shares_) sum += each;
    bar_.Update(share < 0 ? -1 : sum / static_cast<double>(shares_.size()));
    return !failed_ &&
           !(environment_.interrupted && environment_.interrupted());
  }

  const SimulateRequest& request_;
  const SimulateEnvironment& environment_;
  std::vector<std::atomic<double>> shares_;
  std::atomic<bool> failed_ = false;
  std::vector<absl::StatusOr<sim::RunResult>> results_;
  sim::ProgressBar bar_;
};

void PrintHead(const sim::RunResult& result, int num_seeds, std::ostream& out) {
  const sim::SimulationConfig& config = result.config;
  out << "policy " << config.policy().name();
  if (!config.policy().options().empty()) {
    out << " (" << config.policy().options() << ")";
  }
  out << ", model " << config.cost().model() << ", device "
      << config.cost().device() << ", seed " << config.seed();
  if (num_seeds > 1) out << " and " << num_seeds - 1 << " more";
  out << "\n" << result.cost_description << "\n" << result.kv_memory << "\n\n";
}

void PrintConfidence(const Json& summary, std::ostream& out) {
  out << "\n  Means over " << summary["run"]["seeds"].size()
      << " seeds; half-widths of their 95% confidence intervals:\n";
  const Json& half = summary["confidence_95"];
  for (const char* key : {"ttft_ms", "tpot_ms", "tbt_ms", "e2e_ms"}) {
    out << absl::StrFormat("  %-16s mean %.3f, P50 %.3f, P99 %.3f\n", key,
                           half[key]["mean"].get<double>(),
                           half[key]["p50"].get<double>(),
                           half[key]["p99"].get<double>());
  }
  out << absl::StrFormat(
      "  %-16s %.4f requests/s, %.2f output tokens/s\n", "throughput",
      half["throughput"]["requests_per_s"].get<double>(),
      half["throughput"]["output_tokens_per_s"].get<double>());
}

// A notice of several runs is told once.
void PrintNotices(const std::vector<sim::RunResult>& results,
                  std::ostream& err) {
  std::set<std::string> told;
  for (const sim::RunResult& result : results) {
    for (const std::string& notice : result.notices) {
      if (told.insert(notice).second) err << "note: " << notice << "\n";
    }
  }
  const bool alike =
      std::all_of(results.begin(), results.end(), [&](const auto& result) {
        return result.fingerprint == results[0].fingerprint;
      });
  if (results.size() > 1 && alike) {
    err << "note: all seeds gave the same run, since nothing in it is random\n";
  }
}

absl::StatusOr<std::unique_ptr<sim::OutputFolder>> OpenFolder(
    const SimulateRequest& request) {
  if (request.out.empty()) return nullptr;
  sim::OutputFolder::Options options;
  options.overwrite = request.overwrite;
  options.replaceable = sim::RunOutputNames();
  options.replaceable.push_back(kSeedsFolder);
  return sim::OutputFolder::Create(request.out, options);
}

absl::Status Simulate(const SimulateRequest& request,
                      const SimulateEnvironment& environment) {
  std::ostream& out = *environment.out;
  ASSIGN_OR_RETURN(const std::unique_ptr<sim::OutputFolder> folder,
                   OpenFolder(request));
  std::vector<sim::RunResult> results;
  {
    Runs runs(request, environment);
    ASSIGN_OR_RETURN(results, runs.Run(folder.get()));
  }
  std::vector<Json> summaries;
  for (const sim::RunResult& result : results) {
    summaries.push_back(sim::SummaryJson(result));
  }
  const bool many = summaries.size() > 1;
  const Json summary = many ? sim::CombineSeeds(summaries) : summaries[0];
  if (folder != nullptr) {
    if (many) {
      RETURN_IF_ERROR(sim::AddSummary(summary, "", *folder));
      RETURN_IF_ERROR(folder->AddFile("config.textproto",
                                      sim::ConfigText(results[0].config)));
    }
    RETURN_IF_ERROR(folder->Commit());
  }
  PrintNotices(results, *environment.err);
  PrintHead(results[0], request.num_seeds, out);
  out << sim::SummaryText(summary);
  if (many) PrintConfidence(summary, out);
  if (folder != nullptr) out << "\nResults are in " << folder->path() << "\n";
  return absl::OkStatus();
}

}  // namespace

int SimulateMain(absl::Span<const std::string> args,
                 const SimulateEnvironment& environment) {
  absl::StatusOr<SimulateRequest> request = ParseSimulateFlags(args);
  absl::Status status = request.status();
  if (status.ok()) {
    if (request->help) {
      *environment.out << SimulateHelp();
      return 0;
    }
    if (request->list) {
      List(*environment.out);
      return 0;
    }
    status = Simulate(*request, environment);
  }
  if (!status.ok()) {
    *environment.err << "simulate: " << status.message() << "\n";
  }
  return ExitStatus(status);
}

}  // namespace interleave::tools
