#include "sim/experiments/mixing_main.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/command_line.h"
#include "base/parallel_for.h"
#include "base/status_macros.h"
#include "sim/config/config.h"
#include "sim/config/simulation.pb.h"
#include "sim/cost/cost.pb.h"
#include "sim/cost/shipped_profiles.h"
#include "sim/experiments/comparison.h"
#include "sim/metrics/metrics.h"
#include "sim/output/output_folder.h"
#include "sim/output/progress_bar.h"
#include "sim/output/repeat_folder.h"
#include "sim/output/run_output.h"
#include "sim/run_result.h"

namespace interleave::sim {
namespace {

constexpr char kPolicies[] =
    "static_batching, orca, prefill_first, interleave, unified_budget, "
    "split_fuse{budget_tokens: 1024}, stall_free{chunk_tokens: 512}";
constexpr char kRates[] = "6,12,18,24";
constexpr char kResultsFolder[] = "mixing_results";
constexpr double kTtftTargetMs = 500;
constexpr double kTbtTargetMs = 50;
constexpr double kNanosPerMilli = 1e6;

struct PolicyChoice {
  // As the table shows it.
  std::string label;
  // Of its folder.
  std::string folder;
  PolicyConfig config;
};

struct Request {
  std::string workload;
  std::string rates = kRates;
  std::string policies = kPolicies;
  std::vector<std::string> set;
  std::string out;
  std::string repeats;
  std::string threads;
  bool overwrite = false;
  bool write_iterations = false;
  bool help = false;
};

std::vector<Flag> FlagTable(Request* request) {
  return {
      StringFlag("workload", "FILE",
                 "a trace in any format that tools:simulate reads; when absent "
                 "a synthetic one with the statistics of the Azure "
                 "conversation trace of 2023, which has the same format",
                 &request->workload),
      StringFlag("rates", "X,Y,...",
                 "requests a second; arrivals keep their pattern",
                 &request->rates),
      StringFlag("policies", "NAME{OPTIONS},NAME,...",
                 "the policies to compare, options in braces; when absent: " +
                     std::string(kPolicies),
                 &request->policies),
      {"set", "FIELD.PATH=VALUE",
       "sets a field of every run's configuration, as in tools:simulate; may "
       "be repeated: --set=cost.device=a100_80gb --set=slo.tbt_ms=100",
       [request](absl::string_view text) {
         request->set.emplace_back(text);
         return absl::OkStatus();
       }},
      StringFlag(
          "repeats", "N",
          "runs of each policy at each rate, with seeds that follow each "
          "other, of which means are shown and deviations.csv has the "
          "standard deviations; with --set=device_time_jitter=0.02 they "
          "tell how much of a difference hangs on when exactly "
          "iterations end; when absent 1",
          &request->repeats),
      StringFlag("out", "DIR",
                 "where the results go; when absent a new folder "
                 "mixing_results",
                 &request->out),
      SwitchFlag("overwrite", "replaces the results in a folder that exists",
                 &request->overwrite),
      SwitchFlag("write_iterations", "writes iterations.csv of each run too",
                 &request->write_iterations),
      StringFlag("threads", "N",
                 "simulations at a time; when absent one a core",
                 &request->threads),
      SwitchFlag("help", "prints this", &request->help),
  };
}

// ---- What to run ----

// At commas outside braces.
std::vector<std::string> SplitOutsideBraces(absl::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  return parts;
}

absl::StatusOr<std::vector<PolicyChoice>> ParsePolicies(
    absl::string_view text) {
  std::vector<PolicyChoice> choices;
  std::map<std::string, int> seen;
  for (const std::string& part : SplitOutsideBraces(text)) {
    PolicyChoice choice;
    choice.label = std::string(absl::StripAsciiWhitespace(part));
    absl::string_view name = choice.label;
    absl::string_view options;
    if (const size_t brace = name.find('{'); brace != absl::string_view::npos) {
      if (name.back() != '}') {
        return absl::InvalidArgumentError(absl::StrCat(
            "--policies: \"", choice.label, "\" lacks a closing brace"));
      }
      options = name.substr(brace + 1, name.size() - brace - 2);
      name = name.substr(0, brace);
    }
    if (name.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--policies=", text, ": a name is missing"));
    }
    choice.config.set_name(std::string(name));
    choice.config.set_options(std::string(options));
    const int count = ++seen[choice.config.name()];
    choice.folder =
        count == 1 ? std::string(name) : absl::StrCat(name, "_", count);
    choices.push_back(std::move(choice));
  }
  return choices;
}

absl::StatusOr<std::vector<double>> ParseRates(absl::string_view text) {
  std::vector<double> rates;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    double rate = 0;
    if (!absl::SimpleAtod(part, &rate) || !(rate > 0 && rate <= 1e9)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--rates=", text, ": \"", part,
          "\" is no rate; rates are numbers above 0, separated by commas"));
    }
    if (std::find(rates.begin(), rates.end(), rate) == rates.end()) {
      rates.push_back(rate);
    }
  }
  return rates;
}

absl::StatusOr<size_t> ParseCount(absl::string_view flag,
                                  absl::string_view text, size_t when_absent) {
  size_t count = 0;
  if (text.empty()) return when_absent;
  if (!absl::SimpleAtoi(text, &count) || count < 1 || count > 1024) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--", flag, "=", text, ": it must be a whole number from 1 to 1024"));
  }
  return count;
}

// Unless a cost model is chosen: measured times, where they ship for this model
// and device, in place of the roofline.
void ChooseProfile(CostModelConfig* cost) {
  if (cost->kind_case() != CostModelConfig::KIND_NOT_SET ||
      cost->tensor_parallel() != 1) {
    return;
  }
  const std::string profile = ShippedProfileFor(cost->model(), cost->device());
  if (!profile.empty()) cost->mutable_profile()->set_name(profile);
}

// What all runs have in common.
absl::StatusOr<SimulationConfig> BaseConfig(const Request& request,
                                            const std::string& workload) {
  SimulationConfig config;
  config.mutable_workload()->mutable_trace()->set_path(workload);
  config.mutable_slo()->set_ttft_ms(kTtftTargetMs);
  config.mutable_slo()->set_tbt_ms(kTbtTargetMs);
  for (const std::string& assignment : request.set) {
    RETURN_IF_ERROR(SetField(assignment, &config));
  }
  ChooseProfile(config.mutable_cost());
  return config;
}

// The first of mixing_results, mixing_results_2, ... that does not exist.
std::string FreshFolder() {
  std::error_code error;
  std::string name = kResultsFolder;
  for (int n = 2; std::filesystem::exists(name, error); ++n) {
    name = absl::StrCat(kResultsFolder, "_", n);
  }
  return name;
}

// ---- Running ----

struct Run {
  PolicyChoice policy;
  SimulationConfig config;
  double rate = 0;
  std::string prefix;
};

// Repeats of one policy at one rate are next to each other.
std::vector<Run> ListRuns(const SimulationConfig& base,
                          absl::Span<const PolicyChoice> policies,
                          absl::Span<const double> rates, size_t repeats) {
  std::vector<Run> runs;
  for (const double rate : rates) {
    for (const PolicyChoice& policy : policies) {
      for (size_t i = 0; i < repeats; ++i) {
        Run run = {policy, base, rate,
                   absl::StrFormat("runs/rate_%g/%s/", rate, policy.folder)};
        *run.config.mutable_policy() = policy.config;
        run.config.mutable_workload()->mutable_trace()->set_rate_rps(rate);
        run.config.set_seed(base.seed() + i);
        if (repeats > 1) {
          absl::StrAppend(&run.prefix, RepeatFolder(i + 1), "/");
        }
        runs.push_back(std::move(run));
      }
    }
  }
  return runs;
}

ComparisonRow RowOf(const Run& run, const Metrics& metrics) {
  const double seconds = metrics.makespan().seconds();
  const double all =
      static_cast<double>(metrics.completed() + metrics.rejected());
  ComparisonRow row;
  row.policy = run.policy.label;
  row.rate_rps = run.rate;
  row.ttft_p50_ms = metrics.ttft().QuantileNanos(0.5) / kNanosPerMilli;
  row.ttft_p99_ms = metrics.ttft().QuantileNanos(0.99) / kNanosPerMilli;
  row.tbt_p50_ms = metrics.tbt().QuantileNanos(0.5) / kNanosPerMilli;
  row.tbt_p99_ms = metrics.tbt().QuantileNanos(0.99) / kNanosPerMilli;
  if (seconds > 0) {
    row.requests_per_s = static_cast<double>(metrics.completed()) / seconds;
    row.output_tokens_per_s =
        static_cast<double>(metrics.output_tokens()) / seconds;
  }
  row.slo_attainment = static_cast<double>(metrics.attained_slo()) / all;
  if (metrics.ledger().total() > 0) {
    row.interference = 1 - metrics.ledger().own_work / metrics.ledger().total();
  }
  row.preemptions = static_cast<double>(metrics.preemptions());
  return row;
}

struct Outcome {
  absl::Status status;
  ComparisonRow row;
  int64_t iterations = 0;
  std::string kv_memory;
  std::string cost_description;
};

Outcome RunOne(const Run& run, const RunOutputOptions& options,
               OutputFolder& folder) {
  Outcome outcome;
  absl::StatusOr<RunResult> result =
      RunIntoFolder(run.config, &folder, options);
  if (!result.ok()) {
    outcome.status = result.status();
    return outcome;
  }
  outcome.row = RowOf(run, result->metrics);
  outcome.iterations = result->metrics.iterations();
  outcome.kv_memory = result->kv_memory;
  outcome.cost_description = result->cost_description;
  return outcome;
}

// Fails with the first failure, in the order of the runs.
absl::StatusOr<std::vector<Outcome>> RunAll(
    const std::vector<Run>& runs, const Request& request, size_t threads,
    const MixingEnvironment& environment, OutputFolder& folder) {
  std::vector<Outcome> outcomes(runs.size());
  std::atomic<size_t> done = 0;
  std::atomic<bool> failed = false;
  ProgressBar bar(environment.show_progress ? environment.err : nullptr);
  ParallelFor(runs.size(), threads, [&](size_t i) {
    RunOutputOptions options;
    options.prefix = runs[i].prefix;
    options.iterations = request.write_iterations;
    options.progress = [&](double) {
      bar.Update(static_cast<double>(done) / static_cast<double>(runs.size()));
      return !failed && !(environment.interrupted && environment.interrupted());
    };
    outcomes[i] = RunOne(runs[i], options, folder);
    if (!outcomes[i].status.ok()) failed = true;
    ++done;
  });
  for (const Outcome& outcome : outcomes) {
    if (!absl::IsCancelled(outcome.status)) RETURN_IF_ERROR(outcome.status);
  }
  for (const Outcome& outcome : outcomes) RETURN_IF_ERROR(outcome.status);
  return outcomes;
}

// ---- Showing ----

std::string Head(const SimulationConfig& config, const Outcome& outcome) {
  const std::filesystem::path trace = config.workload().trace().path();
  return absl::StrCat("workload ", trace.filename().string(), "\n",
                      outcome.cost_description, "\n", outcome.kv_memory,
                      "\n\n");
}

std::string Legend(const SimulationConfig& config, size_t repeats) {
  std::string legend = absl::StrFormat(
      "\n* best: no other policy at this rate has a TTFT P99, a TBT P99 and a "
      "throughput\n  that are all at least as good, and one that is better.\n"
      "  SLO met: share of requests with TTFT <= %g ms and every gap between "
      "tokens <= %g ms.\n"
      "  interference: share of the time between tokens that was not the work "
      "of decodes:\n  prompt chunks beside them, iterations without them, "
      "recomputation.\n",
      config.slo().ttft_ms(), config.slo().tbt_ms());
  if (repeats > 1) {
    absl::StrAppend(&legend, "  Means of ", repeats,
                    " runs each; deviations.csv has their standard "
                    "deviations.\n");
  }
  return legend;
}

struct Summary {
  std::vector<ComparisonRow> means;
  std::vector<ComparisonRow> deviations;
  int64_t iterations = 0;
};

Summary Summarize(const std::vector<Outcome>& outcomes, size_t repeats) {
  Summary summary;
  std::vector<ComparisonRow> rows;
  for (const Outcome& outcome : outcomes) {
    summary.iterations += outcome.iterations;
    rows.push_back(outcome.row);
    if (rows.size() < repeats) continue;
    RepeatedRow repeated = OfRepeats(rows);
    summary.means.push_back(std::move(repeated.mean));
    summary.deviations.push_back(std::move(repeated.deviation));
    rows.clear();
  }
  MarkParetoBest(summary.means);
  return summary;
}

absl::Status Mix(const Request& request, const MixingEnvironment& environment) {
  const auto begin = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(const std::vector<PolicyChoice> policies,
                   ParsePolicies(request.policies));
  ASSIGN_OR_RETURN(const std::vector<double> rates, ParseRates(request.rates));
  ASSIGN_OR_RETURN(const size_t threads,
                   ParseCount("threads", request.threads, 0));
  ASSIGN_OR_RETURN(const size_t repeats,
                   ParseCount("repeats", request.repeats, 1));
  ASSIGN_OR_RETURN(const SimulationConfig base,
                   BaseConfig(request, request.workload.empty()
                                           ? environment.default_workload
                                           : request.workload));
  ASSIGN_OR_RETURN(
      const std::unique_ptr<OutputFolder> folder,
      OutputFolder::Create(
          request.out.empty() ? FreshFolder() : request.out,
          {.overwrite = request.overwrite, .replaceable = {"runs"}}));
  const std::vector<Run> runs = ListRuns(base, policies, rates, repeats);
  // Runs on a GPU take turns, so that each has its time alone.
  const bool on_kernels = base.executor() != SimulationConfig::COST_MODEL;
  ASSIGN_OR_RETURN(
      const std::vector<Outcome> outcomes,
      RunAll(runs, request, on_kernels ? 1 : threads, environment, *folder));
  const Summary summary = Summarize(outcomes, repeats);
  const std::string text =
      absl::StrCat(Head(base, outcomes[0]), ComparisonTable(summary.means),
                   Legend(base, repeats));
  RETURN_IF_ERROR(folder->AddFile("results.csv", ComparisonCsv(summary.means)));
  if (repeats > 1) {
    RETURN_IF_ERROR(
        folder->AddFile("deviations.csv", ComparisonCsv(summary.deviations)));
  }
  RETURN_IF_ERROR(folder->AddFile("table.txt", text));
  RETURN_IF_ERROR(folder->Commit());
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  *environment.out << text
                   << absl::StrFormat(
                          "\n%d simulations of %d iterations in %.1f s.  All "
                          "results are in\n%s\n",
                          runs.size(), summary.iterations, seconds,
                          folder->path());
  return absl::OkStatus();
}

}  // namespace

int MixingMain(absl::Span<const std::string> args,
               const MixingEnvironment& environment) {
  Request request;
  const std::vector<Flag> flags = FlagTable(&request);
  absl::Status status = ParseFlags(flags, args);
  if (status.ok() && request.help) {
    *environment.out
        << "Compares how scheduling policies mix prefill and decode.\n\n"
        << FlagHelp(flags);
    return 0;
  }
  if (status.ok()) status = Mix(request, environment);
  if (!status.ok()) {
    *environment.err << "mixing: " << status.message() << "\n";
  }
  return ExitStatus(status);
}

}  // namespace interleave::sim
