#include "tools/simulate_flags.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/command_line.h"
#include "base/status_macros.h"
#include "base/text_file.h"
#include "sim/config/config.h"
#include "sim/config/simulation.pb.h"
#include "sim/config/trace_head.h"
#include "sim/cost/shipped_profiles.h"
#include "sim/cost/text_proto.h"
#include "sim/workload/workload.pb.h"

namespace interleave::tools {
namespace {

using sim::SimulationConfig;
using sim::WorkloadConfig;

constexpr char kGenerators[] = "poisson, gamma, constant, closed_loop";
constexpr double kMeanPromptTokens = 1000;
constexpr double kMeanOutputTokens = 200;
constexpr double kSigma = 0.8;
constexpr int64_t kDefaultRequests = 1000;
constexpr double kDefaultCv = 2;
constexpr int kMaxSeeds = 10000;

// What the flags say, before any of it is applied.
struct Flags {
  std::string config;
  std::string workload;
  std::string workload_format;
  std::string lengths;
  std::string rate;
  std::string cv;
  std::string users;
  std::string num_requests;
  std::string seeds;
  // Fields of the configuration, as path and value.
  std::vector<std::pair<std::string, std::string>> fields;
  std::vector<std::string> set;
  SimulateRequest request;
};

// A flag that stands for one field.
Flag FieldFlag(absl::string_view name, absl::string_view value,
               absl::string_view help, absl::string_view path, Flags* flags) {
  return {std::string(name), std::string(value), std::string(help),
          [path = std::string(path), flags](absl::string_view text) {
            // So that a bad value is told of under the flag's name.
            SimulationConfig scratch;
            RETURN_IF_ERROR(sim::SetField(path, text, &scratch));
            flags->fields.emplace_back(path, std::string(text));
            return absl::OkStatus();
          }};
}

Flag ExecutorFlag(Flags* flags) {
  return {
      "executor", "cost_model|kernels|both",
      "what an iteration takes: predicted by the cost model (when absent), "
      "or measured by running it on this machine's GPU; both: measured, "
      "and each prediction beside it in iterations.csv",
      [flags](absl::string_view text) -> absl::Status {
        for (const absl::string_view known :
             {"cost_model", "kernels", "both"}) {
          if (text != known) continue;
          flags->fields.emplace_back("executor", absl::AsciiStrToUpper(text));
          return absl::OkStatus();
        }
        return absl::InvalidArgumentError(absl::StrCat(
            "--executor=", text, ": it must be cost_model, kernels or both"));
      }};
}

std::vector<Flag> FlagTable(Flags* flags) {
  return {
      StringFlag("config", "FILE",
                 "a SimulationConfig in text format; the flags below change it",
                 &flags->config),
      {"set", "FIELD.PATH=VALUE",
       "sets any field of the configuration, after all other flags; may be "
       "repeated: --set=cost.roofline.constant_us=30",
       [flags](absl::string_view text) {
         flags->set.emplace_back(text);
         return absl::OkStatus();
       }},
      StringFlag("workload", "FILE|poisson|gamma|constant|closed_loop",
                 "a trace of requests, or how to generate them",
                 &flags->workload),
      StringFlag("workload_format",
                 "azure2023|mooncake|lengths|replay|requests",
                 "the trace's format; guessed from its first line when absent",
                 &flags->workload_format),
      StringFlag("lengths", "FILE",
                 "generated requests take their prompt and output lengths from "
                 "this trace, in pairs; when absent they are lognormal with "
                 "means of 1000 and 200 tokens and a sigma of 0.8",
                 &flags->lengths),
      StringFlag("rate", "REQUESTS_PER_S",
                 "mean arrival rate; a trace's arrivals are sped up or slowed "
                 "down to it",
                 &flags->rate),
      StringFlag("cv", "X",
                 "coefficient of variation of gamma's gaps (2 when absent)",
                 &flags->cv),
      StringFlag("num_requests", "N",
                 "of a trace the first N; when absent the whole trace, or 1000 "
                 "generated ones",
                 &flags->num_requests),
      StringFlag("users", "N",
                 "closed loop: each of N users sends the next request when the "
                 "last has ended; with a trace its arrivals are ignored",
                 &flags->users),
      FieldFlag("seed", "N", "of everything random (1 when absent)", "seed",
                flags),
      StringFlag("seeds", "N",
                 "runs N seeds, --seed and those that follow it, and prints "
                 "means with their 95% confidence intervals",
                 &flags->seeds),
      FieldFlag("policy", "NAME", "the scheduling policy; see --list",
                "policy.name", flags),
      FieldFlag("policy_options", "TEXTPROTO",
                "the policy's options: --policy_options='chunk_tokens: 512'",
                "policy.options", flags),
      FieldFlag("model", "NAME|FILE", "see --list", "cost.model", flags),
      FieldFlag("device", "NAME|FILE", "see --list", "cost.device", flags),
      {"profile", "NAME|DIR",
       "predicts from measured tables instead of the roofline: a shipped "
       "profile (see --list), or a folder",
       [flags](absl::string_view text) {
         flags->fields.emplace_back(sim::IsShippedProfile(text)
                                        ? "cost.profile.name"
                                        : "cost.profile.directory",
                                    std::string(text));
         return absl::OkStatus();
       }},
      ExecutorFlag(flags),
      FieldFlag("num_blocks", "N",
                "KV blocks; when absent as many as the device's memory holds",
                "cache.num_blocks", flags),
      FieldFlag("block_size", "N", "tokens of a KV block (16 when absent)",
                "cache.block_size", flags),
      FieldFlag("max_num_seqs", "N", "requests running at a time",
                "limits.max_num_seqs", flags),
      FieldFlag("max_num_batched_tokens", "N", "tokens in one iteration",
                "limits.max_num_batched_tokens", flags),
      FieldFlag("max_model_len", "N",
                "prompt and generated tokens of one request",
                "limits.max_model_len", flags),
      StringFlag("out", "DIR",
                 "writes summary.json, summary.csv, requests.csv, "
                 "iterations.csv and config.textproto into a new folder",
                 &flags->request.out),
      SwitchFlag("overwrite", "replaces the results in a folder that exists",
                 &flags->request.overwrite),
      SwitchFlag("write_iterations",
                 "--nowrite_iterations leaves iterations.csv out",
                 &flags->request.write_iterations),
      SwitchFlag("list", "lists the policies, models and devices there are",
                 &flags->request.list),
      SwitchFlag("help", "prints this", &flags->request.help),
  };
}

absl::StatusOr<double> PositiveNumber(absl::string_view flag,
                                      absl::string_view text) {
  double value = 0;
  if (absl::SimpleAtod(text, &value) && value > 0 && value <= 1e12) {
    return value;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--", flag, "=", text, ": it must be a number above 0, at most 1e12"));
}

absl::StatusOr<int64_t> PositiveInteger(absl::string_view flag,
                                        absl::string_view text, int64_t most) {
  int64_t value = 0;
  if (absl::SimpleAtoi(text, &value) && value >= 1 && value <= most) {
    return value;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--", flag, "=", text, ": it must be a whole number from 1 to ", most));
}

// ---- The workload ----

void SetLengths(const Flags& flags, sim::GeneratorConfig& generator) {
  if (!flags.lengths.empty()) {
    generator.mutable_length_pairs()->set_path(flags.lengths);
    return;
  }
  auto& prompt = *generator.mutable_prompt_tokens()->mutable_lognormal();
  prompt.set_mean(kMeanPromptTokens);
  prompt.set_sigma(kSigma);
  auto& output = *generator.mutable_output_tokens()->mutable_lognormal();
  output.set_mean(kMeanOutputTokens);
  output.set_sigma(kSigma);
}

absl::Status ChooseTrace(const Flags& flags, WorkloadConfig& workload) {
  std::error_code error;
  if (!std::filesystem::exists(flags.workload, error)) {
    return absl::NotFoundError(absl::StrCat(
        "--workload=", flags.workload,
        ": there is no such file, nor a generator of that name; generators "
        "are ",
        kGenerators));
  }
  workload.mutable_trace()->set_path(flags.workload);
  if (flags.lengths.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--lengths is for generated requests; a trace has lengths of its own");
}

absl::Status ChooseWorkload(const Flags& flags, WorkloadConfig& workload) {
  if (flags.workload.empty()) return absl::OkStatus();
  workload.Clear();
  sim::ArrivalConfig arrival;
  if (flags.workload == "poisson") {
    arrival.mutable_poisson();
  } else if (flags.workload == "gamma") {
    arrival.mutable_gamma()->set_cv(kDefaultCv);
  } else if (flags.workload == "constant") {
    arrival.mutable_constant();
  } else if (flags.workload == "closed_loop") {
    arrival.mutable_closed_loop();
  } else {
    return ChooseTrace(flags, workload);
  }
  *workload.mutable_arrival() = arrival;
  SetLengths(flags, *workload.mutable_generator());
  workload.set_num_requests(kDefaultRequests);
  const bool closed = flags.workload == "closed_loop";
  const std::string& wanted = closed ? flags.users : flags.rate;
  if (!wanted.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--workload=", flags.workload, " wants ",
                   closed ? "--users=N" : "--rate=REQUESTS_PER_S"));
}

absl::Status ApplyFormat(const Flags& flags, WorkloadConfig& workload) {
  if (flags.workload_format.empty()) return absl::OkStatus();
  if (workload.has_trace()) {
    workload.mutable_trace()->set_format(flags.workload_format);
  } else if (workload.generator().has_length_pairs()) {
    workload.mutable_generator()->mutable_length_pairs()->set_format(
        flags.workload_format);
  } else {
    return absl::InvalidArgumentError(
        "--workload_format is for a trace; --workload names none");
  }
  return absl::OkStatus();
}

absl::Status ApplyRateToTrace(double rate, WorkloadConfig& workload) {
  ASSIGN_OR_RETURN(const sim::TraceHead head,
                   sim::ReadTraceHead(workload.trace()));
  if (head.has_arrivals) {
    workload.mutable_trace()->clear_rate_scale();
    workload.mutable_trace()->set_rate_rps(rate);
  } else {
    workload.mutable_arrival()->mutable_poisson()->set_rate_rps(rate);
  }
  return absl::OkStatus();
}

absl::Status ApplyRate(const Flags& flags, WorkloadConfig& workload) {
  if (flags.rate.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const double rate, PositiveNumber("rate", flags.rate));
  sim::ArrivalConfig& arrival = *workload.mutable_arrival();
  switch (arrival.law_case()) {
    case sim::ArrivalConfig::kPoisson:
      arrival.mutable_poisson()->set_rate_rps(rate);
      return absl::OkStatus();
    case sim::ArrivalConfig::kGamma:
      arrival.mutable_gamma()->set_rate_rps(rate);
      return absl::OkStatus();
    case sim::ArrivalConfig::kConstant:
      arrival.mutable_constant()->set_rate_rps(rate);
      return absl::OkStatus();
    case sim::ArrivalConfig::LAW_NOT_SET:
      workload.clear_arrival();
      if (workload.has_trace()) return ApplyRateToTrace(rate, workload);
      break;
    default:
      break;
  }
  return absl::InvalidArgumentError(
      "--rate is for a trace and for poisson, gamma and constant arrivals; a "
      "closed loop takes --users");
}

absl::Status ApplyCv(const Flags& flags, WorkloadConfig& workload) {
  if (flags.cv.empty()) return absl::OkStatus();
  if (!workload.arrival().has_gamma()) {
    return absl::InvalidArgumentError("--cv is for --workload=gamma");
  }
  ASSIGN_OR_RETURN(const double cv, PositiveNumber("cv", flags.cv));
  workload.mutable_arrival()->mutable_gamma()->set_cv(cv);
  return absl::OkStatus();
}

absl::Status ApplyUsers(const Flags& flags, WorkloadConfig& workload) {
  if (flags.users.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t users,
                   PositiveInteger("users", flags.users, 1 << 30));
  if (!workload.arrival().has_closed_loop() && !workload.has_trace()) {
    return absl::InvalidArgumentError(
        "--users is for --workload=closed_loop and for traces");
  }
  workload.mutable_arrival()->mutable_closed_loop()->set_users(
      static_cast<int32_t>(users));
  return absl::OkStatus();
}

absl::Status ApplyWorkloadFlags(const Flags& flags, WorkloadConfig& workload) {
  RETURN_IF_ERROR(ChooseWorkload(flags, workload));
  RETURN_IF_ERROR(ApplyFormat(flags, workload));
  RETURN_IF_ERROR(ApplyUsers(flags, workload));
  RETURN_IF_ERROR(ApplyRate(flags, workload));
  RETURN_IF_ERROR(ApplyCv(flags, workload));
  if (flags.num_requests.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      const int64_t n,
      PositiveInteger("num_requests", flags.num_requests, int64_t{1} << 40));
  workload.set_num_requests(n);
  return absl::OkStatus();
}

// ---- All of it ----

absl::Status ReadConfig(const std::string& path, SimulationConfig* config) {
  if (path.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  return sim::ParseTextProto(text, path, config);
}

absl::Status Annotated(const absl::Status& status, absl::string_view where) {
  return absl::Status(status.code(),
                      absl::StrCat(where, ": ", status.message()));
}

absl::Status BuildConfig(Flags& flags) {
  SimulationConfig& config = flags.request.config;
  RETURN_IF_ERROR(ReadConfig(flags.config, &config));
  RETURN_IF_ERROR(ApplyWorkloadFlags(flags, *config.mutable_workload()));
  for (const auto& [path, value] : flags.fields) {
    RETURN_IF_ERROR(sim::SetField(path, value, &config));
  }
  for (const std::string& assignment : flags.set) {
    if (absl::Status status = sim::SetField(assignment, &config);
        !status.ok()) {
      return Annotated(status, "--set");
    }
  }
  if (config.workload().source_case() == WorkloadConfig::SOURCE_NOT_SET) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no workload; pass --workload=FILE, or one of ",
                     kGenerators, "; --help lists the flags"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SimulateRequest> ParseSimulateFlags(
    absl::Span<const std::string> args) {
  Flags flags;
  RETURN_IF_ERROR(ParseFlags(FlagTable(&flags), args));
  if (flags.request.list || flags.request.help) return flags.request;
  RETURN_IF_ERROR(BuildConfig(flags));
  if (!flags.seeds.empty()) {
    ASSIGN_OR_RETURN(const int64_t seeds,
                     PositiveInteger("seeds", flags.seeds, kMaxSeeds));
    flags.request.num_seeds = static_cast<int>(seeds);
  }
  return flags.request;
}

std::string SimulateHelp() {
  Flags flags;
  return absl::StrCat(
      "Runs one simulation of LLM serving and prints its latencies.\n\n"
      "  bazel run -c opt //tools:simulate -- --workload=poisson --rate=5 "
      "--policy=stall_free\n\n",
      FlagHelp(FlagTable(&flags)));
}

}  // namespace interleave::tools
