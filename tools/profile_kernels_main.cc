#include "tools/profile_kernels_main.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/command_line.h"
#include "base/status_macros.h"
#include "base/text_file.h"
#include "sim/cost/cost.pb.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/device.pb.h"
#include "sim/cost/profile_model.h"
#include "sim/cost/profile_tables.h"
#include "sim/cost/specs.h"
#include "sim/output/output_folder.h"
#include "sim/output/progress_bar.h"
#include "sim/profiling/journal.h"
#include "sim/profiling/profile_files.h"
#include "sim/profiling/profiler.h"
#include "sim/profiling/runner_timer.h"
#include "sim/profiling/serve.h"

namespace interleave::tools {
namespace {

// Engines mostly run batches of up to so many tokens.
constexpr int64_t kCheckTokens = 2048;
// Prompt and output of a request that is served for a profile.
constexpr int32_t kLongestServed = 8192;

struct Request {
  std::string model = "llama3.1_8b";
  std::string device = "h200";
  std::string out;
  double minutes = 5;
  int64_t max_chunk = 8192;
  int64_t max_mixed_chunk = 4096;
  int64_t max_context = 8192;
  int64_t max_sequences = 256;
  int64_t max_kv = 8192;
  int64_t block_size = 16;
  int64_t checks = 200;
  double tolerance = 0.02;
  std::string linear_choices;
  bool overwrite = false;
  bool help = false;
};

Flag CountFlag(absl::string_view name, absl::string_view help, int64_t least,
               int64_t* target) {
  return {
      std::string(name), "N", std::string(help),
      [name = std::string(name), least, target](absl::string_view text) {
        constexpr int64_t kMost = 1 << 20;
        int64_t value = 0;
        if (!absl::SimpleAtoi(text, &value) || value < least || value > kMost) {
          return absl::InvalidArgumentError(absl::StrCat(
              "--", name, "=", text, ": it must be a whole number from ", least,
              " to ", kMost));
        }
        *target = value;
        return absl::OkStatus();
      }};
}

Flag NumberFlag(absl::string_view name, absl::string_view help, double low,
                double high, double* target) {
  return {
      std::string(name), "X", std::string(help),
      [name = std::string(name), low, high, target](absl::string_view text) {
        double value = 0;
        if (!absl::SimpleAtod(text, &value) ||
            !(value >= low && value <= high)) {
          return absl::InvalidArgumentError(
              absl::StrCat("--", name, "=", text, ": it must be a number from ",
                           low, " to ", high));
        }
        *target = value;
        return absl::OkStatus();
      }};
}

std::vector<Flag> FlagTable(Request* request) {
  return {
      StringFlag("model", "NAME|FILE", "llama3.1_8b when absent",
                 &request->model),
      StringFlag("device", "NAME|FILE",
                 "what simulations call the card (h200 when absent)",
                 &request->device),
      StringFlag("out", "DIR",
                 "the folder of tables; measurements are kept in DIR.journal "
                 "until it is complete, and the same command goes on from them",
                 &request->out),
      NumberFlag("minutes", "to measure for (5 when absent)", 0.01, 1000,
                 &request->minutes),
      CountFlag("max_chunk", "tokens of the longest prompt chunk alone (8192)",
                64, &request->max_chunk),
      CountFlag("max_mixed_chunk",
                "tokens of the longest one beside decodes (4096)", 64,
                &request->max_mixed_chunk),
      CountFlag("max_context", "tokens before the chunk (8192)", 64,
                &request->max_context),
      CountFlag("max_sequences", "sequences of the largest batch (256)", 8,
                &request->max_sequences),
      CountFlag("max_kv", "tokens of the longest decode (8192)", 64,
                &request->max_kv),
      CountFlag("block_size", "tokens of a KV block (16)", 1,
                &request->block_size),
      CountFlag("checks",
                "random batches to hold the tables against at the end (200)", 0,
                &request->checks),
      NumberFlag("tolerance",
                 "refines where interpolation misses an iteration by more "
                 "(0.02)",
                 0.001, 1, &request->tolerance),
      StringFlag("linear_choices", "FILE",
                 "the linear_choices.csv of another profile, to measure with "
                 "the algorithms it was measured with",
                 &request->linear_choices),
      SwitchFlag("overwrite", "replaces the tables in a folder that exists",
                 &request->overwrite),
      SwitchFlag("help", "prints this", &request->help),
  };
}

EngineLimits LimitsOf(const Request& request) {
  EngineLimits limits;
  limits.block_size = static_cast<int32_t>(request.block_size);
  // A chunk, or several, beside as many decodes as there may be.
  limits.max_num_seqs = static_cast<int32_t>(request.max_sequences) + 8;
  limits.max_num_batched_tokens = static_cast<int32_t>(std::max(
      request.max_chunk, request.max_mixed_chunk + request.max_sequences));
  limits.max_model_len = static_cast<int32_t>(
      std::max(std::max(request.max_chunk, request.max_mixed_chunk) +
                   request.max_context,
               // Some of the decodes are longer than their mean.
               4 * request.max_kv + 1));
  return limits;
}

sim::ProfilerOptions OptionsOf(const Request& request, int num_layers,
                               const ProfiledEngine& engine,
                               const ProfileKernelsEnvironment& environment) {
  sim::ProfilerOptions options;
  options.num_layers = num_layers;
  options.limits.max_chunk = static_cast<int32_t>(request.max_chunk);
  options.limits.max_mixed_chunk =
      static_cast<int32_t>(request.max_mixed_chunk);
  options.check_tokens =
      static_cast<int32_t>(std::min(request.max_mixed_chunk, kCheckTokens));
  options.limits.max_context = static_cast<int32_t>(request.max_context);
  options.limits.max_sequences = static_cast<int32_t>(request.max_sequences);
  options.limits.max_kv = static_cast<int32_t>(request.max_kv);
  options.graph_sizes = engine.graph_sizes;
  options.tolerance = request.tolerance;
  options.budget = absl::Minutes(request.minutes);
  options.now = environment.now;
  options.serve = [&engine, &request](sim::CostModel& cost,
                                      absl::Duration planned,
                                      const sim::OnServed& on_served) {
    const EngineLimits limits = LimitsOf(request);
    sim::ServeOptions serve;
    serve.limits.max_num_seqs = static_cast<int32_t>(request.max_sequences);
    serve.limits.max_num_batched_tokens = std::min(
        serve.limits.max_num_batched_tokens, limits.max_num_batched_tokens);
    serve.limits.max_model_len = std::min(kLongestServed, limits.max_model_len);
    serve.max_tokens = limits.max_num_batched_tokens;
    serve.seconds = absl::ToDoubleSeconds(planned);
    return sim::Serve(*engine.runner, cost, serve, on_served);
  };
  return options;
}

// The cost model that a simulation would make of the files.
absl::StatusOr<std::unique_ptr<sim::CostModel>> ModelOf(
    const std::map<std::string, std::string>& files,
    const sim::ModelSpec& model, const sim::DeviceSpec& device,
    const std::string& folder, sim::ProfileOptions::ThrottleRule rule) {
  ASSIGN_OR_RETURN(sim::ProfileTables tables,
                   sim::ParseProfileTables(files, folder));
  sim::ProfileOptions options;
  options.set_directory(folder);
  options.set_throttle_rule(rule);
  return sim::CreateProfileModel(model, device, {}, options, std::move(tables));
}

std::string StageText(const std::vector<sim::StageReport>& stages) {
  std::string text;
  for (const sim::StageReport& stage : stages) {
    absl::StrAppendFormat(
        &text, "%s%s: %d measured, %d added, %d left, largest miss %.2f%%",
        text.empty() ? "" : "; ", stage.name, stage.measurements,
        stage.refined.added, stage.refined.left,
        100 * stage.refined.largest_miss);
  }
  return text;
}

sim::ProfileMeta MetaOf(absl::Span<const std::string> args,
                        const sim::ModelSpec& model,
                        const sim::DeviceSpec& device, const Request& request,
                        const ProfiledEngine& engine,
                        const sim::ProfileData& data, absl::Time begin,
                        absl::Time end) {
  return {
      {"model_name", model.name()},
      {"device_name", device.name()},
      {"model", model.name()},
      {"gpu", engine.gpu},
      {"driver_version", engine.driver_version},
      {"cuda_version", engine.cuda_version},
      {"profiled_at",
       absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", begin, absl::UTCTimeZone())},
      {"command", absl::StrCat("profile_kernels ", absl::StrJoin(args, " "))},
      {"seconds", absl::StrFormat("%.0f", absl::ToDoubleSeconds(end - begin))},
      {"block_size", absl::StrCat(request.block_size)},
      {"stages", StageText(data.stages)},
  };
}

void AddCheck(const std::vector<sim::CheckRow>& rows,
              std::map<std::string, std::string>& files) {
  const sim::CheckSummary summary = sim::Summarize(rows);
  int outside = 0;
  for (const sim::CheckRow& row : rows) outside += row.outside_grid ? 1 : 0;
  absl::StrAppendFormat(
      &files["meta.yaml"],
      "check: %d random batches, mean error %.2f%%, P95 %.2f%%, bias %+.2f%%, "
      "%d outside the grid\n",
      rows.size(), 100 * summary.mean_error, 100 * summary.p95_error,
      100 * summary.bias, outside);
  files["check.csv"] = sim::CheckCsv(rows);
}

// What the linear layers are to go by: a given file, or what the measurements
// in the journal, if there is one, were made with, which are kept at `path`.
absl::StatusOr<std::string> LinearChoicesFor(const Request& request,
                                             const std::string& journal_path,
                                             const std::string& path) {
  if (!request.linear_choices.empty()) {
    return ReadTextFile(request.linear_choices);
  }
  if (!std::filesystem::exists(journal_path) ||
      !std::filesystem::exists(path)) {
    return std::string();
  }
  return ReadTextFile(path);
}

absl::Status KeepLinearChoices(const std::string& path,
                               const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, ": cannot be written"));
}

absl::Status Profile(absl::Span<const std::string> args, const Request& request,
                     const ProfileKernelsEnvironment& environment) {
  if (request.out.empty()) {
    return absl::InvalidArgumentError("give the folder to write: --out=DIR");
  }
  ASSIGN_OR_RETURN(const sim::ModelSpec model, sim::LookupModel(request.model));
  ASSIGN_OR_RETURN(const sim::DeviceSpec device,
                   sim::LookupDevice(request.device));
  ASSIGN_OR_RETURN(
      const std::unique_ptr<sim::OutputFolder> folder,
      sim::OutputFolder::Create(
          request.out, {.overwrite = request.overwrite, .replaceable = {}}));
  const absl::Time begin = environment.now();
  const std::string journal_path = folder->path() + ".journal";
  const std::string choices_path = folder->path() + ".linear_choices";
  ASSIGN_OR_RETURN(const std::string linear_choices,
                   LinearChoicesFor(request, journal_path, choices_path));
  ASSIGN_OR_RETURN(
      const ProfiledEngine engine,
      environment.create_engine(model, LimitsOf(request), linear_choices));
  *environment.out << engine.runner->Description() << std::endl;
  ASSIGN_OR_RETURN(
      const std::unique_ptr<sim::Journal> journal,
      sim::Journal::Open(
          journal_path,
          absl::StrCat(model.name(), " on ", engine.gpu, ", driver ",
                       engine.driver_version, ", CUDA ", engine.cuda_version,
                       ", blocks of ", request.block_size)));
  // Not before: a journal of another card's keeps its own.
  RETURN_IF_ERROR(KeepLinearChoices(choices_path, engine.linear_choices));
  if (journal->resumed() > 0) {
    *environment.out << "going on after " << journal->resumed()
                     << " measurements in " << journal_path << std::endl;
  }

  sim::RunnerTimer timer(engine.runner.get(), /*seed=*/1);
  sim::ProgressBar bar(environment.show_progress ? environment.err : nullptr);
  sim::ProfilerOptions options =
      OptionsOf(request, model.num_layers(), engine, environment);
  options.progress = [&](double share) {
    bar.Update(share);
    return !(environment.interrupted && environment.interrupted());
  };
  sim::Profiler profiler(options, &timer, journal.get());
  ASSIGN_OR_RETURN(sim::ProfileData data, profiler.Measure());
  const auto files_of = [&] {
    return sim::ProfileFiles(data, engine.graph_sizes,
                             MetaOf(args, model, device, request, engine, data,
                                    begin, environment.now()));
  };
  ASSIGN_OR_RETURN(const std::unique_ptr<sim::CostModel> pieces,
                   ModelOf(files_of(), model, device, folder->path(),
                           sim::ProfileOptions::RECOVERED));
  ASSIGN_OR_RETURN(data, profiler.Calibrate(*pieces));
  std::map<std::string, std::string> files = files_of();
  if (!engine.linear_choices.empty()) {
    files["linear_choices.csv"] = engine.linear_choices;
  }
  if (request.checks > 0) {
    ASSIGN_OR_RETURN(const std::unique_ptr<sim::CostModel> cost,
                     ModelOf(files, model, device, folder->path(),
                             sim::ProfileOptions::FOLLOWED));
    ASSIGN_OR_RETURN(const std::vector<sim::CheckRow> rows,
                     profiler.Check(*cost, static_cast<int>(request.checks)));
    AddCheck(rows, files);
  }
  ASSIGN_OR_RETURN(files["measurements.csv"], ReadTextFile(journal_path));
  for (const auto& [name, text] : files) {
    RETURN_IF_ERROR(folder->AddFile(name, text));
  }
  RETURN_IF_ERROR(folder->Commit());
  std::remove(journal_path.c_str());
  std::remove(choices_path.c_str());
  *environment.out << files.at("meta.yaml") << "The tables are in "
                   << folder->path() << "\n";
  return absl::OkStatus();
}

}  // namespace

int ProfileKernelsMain(absl::Span<const std::string> args,
                       const ProfileKernelsEnvironment& environment) {
  Request request;
  const std::vector<Flag> flags = FlagTable(&request);
  absl::Status status = ParseFlags(flags, args);
  if (status.ok() && request.help) {
    *environment.out
        << "Measures on a GPU what simulations of a model need to know.\n\n"
        << FlagHelp(flags);
    return 0;
  }
  if (status.ok()) status = Profile(args, request, environment);
  if (absl::IsCancelled(status)) {
    *environment.err << "profile_kernels: stopped; the same command goes on "
                        "from the measurements in "
                     << request.out << ".journal\n";
  } else if (!status.ok()) {
    *environment.err << "profile_kernels: " << status.message() << "\n";
  }
  return ExitStatus(status);
}

}  // namespace interleave::tools
