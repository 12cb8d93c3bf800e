#include "sim/fidelity/closed_loop.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/line_reader.h"
#include "base/parse_number.h"
#include "base/sim_time.h"
#include "base/status_macros.h"
#include "sim/cost/device.pb.h"
#include "sim/cost/model.pb.h"
#include "sim/cost/model_math.h"
#include "sim/cost/specs.h"
#include "sim/fidelity/latencies.h"
#include "sim/metrics/metrics.h"
#include "sim/run.h"
#include "sim/run_result.h"

namespace interleave::sim {
namespace {

constexpr int64_t kMaxCount = 1'000'000'000;

// Where not stated; see ClosedLoopRun.
constexpr int64_t kRequestsPerUser = 10;
constexpr int32_t kMaxNumSeqs = 1024;
constexpr int32_t kTokensBeyondPrompt = 1500;

// PyTorch's sort of logits by top k and top p holds, for each of them, a value
// (4 bytes), the sorted value (4) and its index (8), a probability (4), their
// sum so far (4) and a mask (1); 8 of these bytes are in DeriveKvMemory.
constexpr int64_t kSortBytesPerLogit = 25 - 8;

enum Column {
  kName,
  kModel,
  kTensorParallel,
  kPrecision,
  kEngine,
  kBatchedTokens,
  kSeqs,
  kUsers,
  kPrompt,
  kOutput,
  kRequests,
  kMetric,
  kActual,
  kAiconfigurator,
  kAisimulate,
  kNumColumns
};
constexpr std::array<absl::string_view, kNumColumns> kColumns = {
    "exp_id",
    "model",
    "tp",
    "precision",
    "engine",
    "max_num_batched_tokens",
    "max_num_seqs",
    "concurrency",
    "input_len_spec",
    "output_len_spec",
    "n_requests",
    "metric",
    "actual_ms",
    "pred_aiconfigurator",
    "pred_aisimulate"};

// Fields of a line in which a field may stand in quotes, for its commas.
std::vector<absl::string_view> SplitQuoted(absl::string_view line) {
  std::vector<absl::string_view> fields;
  while (true) {
    const bool quoted = absl::ConsumePrefix(&line, "\"");
    const size_t end = std::min(line.find(quoted ? '"' : ','), line.size());
    fields.push_back(line.substr(0, end));
    line.remove_prefix(end);
    if (quoted) absl::ConsumePrefix(&line, "\"");
    if (!absl::ConsumePrefix(&line, ",")) return fields;
  }
}

class PointsReader {
 public:
  PointsReader(absl::string_view text, absl::string_view name)
      : lines_(text, name) {}

  absl::StatusOr<std::vector<ClosedLoopPoint>> Read() {
    RETURN_IF_ERROR(ReadHeader());
    while (lines_.Next()) RETURN_IF_ERROR(ReadRow());
    for (const auto& [point, line] : first_lines_) {
      if (point->measured.ttft > 0 && point->measured.tpot > 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(lines_.name(), ":", line, ": \"", point->name,
                       "\" has no row of one of ttft and tpot"));
    }
    std::vector<ClosedLoopPoint> points;
    for (const auto& point : points_) points.push_back(*point);
    if (points.empty()) return lines_.Error("there is no row below the header");
    return points;
  }

 private:
  absl::Status ReadHeader() {
    lines_.Next();
    const std::vector<absl::string_view> header = SplitQuoted(lines_.line());
    for (size_t i = 0; i < kNumColumns; ++i) {
      const auto it = std::find(header.begin(), header.end(), kColumns[i]);
      if (it == header.end()) {
        return lines_.Error(
            absl::StrCat("there is no column \"", kColumns[i], "\""));
      }
      positions_[i] = it - header.begin();
    }
    num_fields_ = header.size();
    return absl::OkStatus();
  }

  absl::Status ReadRow() {
    fields_ = SplitQuoted(lines_.line());
    if (fields_.size() != num_fields_) {
      return lines_.Error(absl::StrCat("it has ", fields_.size(),
                                       " fields, the header ", num_fields_));
    }
    ASSIGN_OR_RETURN(ClosedLoopPoint * point, PointOfRow());
    ASSIGN_OR_RETURN(const double actual, Milliseconds(kActual));
    if (actual == 0) return lines_.Error("actual_ms must be above 0");
    ASSIGN_OR_RETURN(const double aiconfigurator,
                     Milliseconds(kAiconfigurator));
    ASSIGN_OR_RETURN(const double aisimulate, Milliseconds(kAisimulate));
    if (Text(kMetric) != "ttft" && Text(kMetric) != "tpot") {
      return lines_.Error("metric must be ttft or tpot");
    }
    const auto field =
        Text(kMetric) == "ttft" ? &MeanLatency::ttft : &MeanLatency::tpot;
    point->measured.*field = actual;
    SetPrediction(aiconfigurator, field, &point->aiconfigurator);
    SetPrediction(aisimulate, field, &point->aisimulate);
    return absl::OkStatus();
  }

  static void SetPrediction(double ms, double MeanLatency::*field,
                            std::optional<MeanLatency>* prediction) {
    if (ms == 0) return;
    if (!prediction->has_value()) prediction->emplace();
    (**prediction).*field = ms;
  }

  // Rows of one measurement have the same name.
  absl::StatusOr<ClosedLoopPoint*> PointOfRow() {
    ClosedLoopPoint point;
    point.name = std::string(Text(kName));
    const auto it = by_name_.find(point.name);
    if (it != by_name_.end()) return it->second;
    point.model = std::string(Text(kModel));
    point.precision = std::string(Text(kPrecision));
    point.engine = std::string(Text(kEngine));
    ASSIGN_OR_RETURN(const int64_t devices, Count(kTensorParallel, 1));
    ASSIGN_OR_RETURN(const int64_t users, Count(kUsers, 1));
    ASSIGN_OR_RETURN(const int64_t seqs, Count(kSeqs, 0));
    ASSIGN_OR_RETURN(const int64_t tokens, Count(kBatchedTokens, 0));
    ASSIGN_OR_RETURN(point.num_requests, Count(kRequests, 0));
    ASSIGN_OR_RETURN(point.prompt, Range(kPrompt));
    ASSIGN_OR_RETURN(point.output, Range(kOutput));
    point.tensor_parallel = static_cast<int32_t>(devices);
    point.users = static_cast<int32_t>(users);
    point.max_num_seqs = static_cast<int32_t>(seqs);
    point.max_num_batched_tokens = static_cast<int32_t>(tokens);
    points_.push_back(std::make_unique<ClosedLoopPoint>(std::move(point)));
    first_lines_.emplace_back(points_.back().get(), lines_.number());
    return by_name_[points_.back()->name] = points_.back().get();
  }

  absl::string_view Text(Column column) const {
    return fields_[positions_[column]];
  }

  absl::Status FieldError(Column column, const absl::Status& status) const {
    return lines_.Error(absl::StrCat(kColumns[column], ": ", status.message()));
  }

  // Empty: `low`, where that is 0.
  absl::StatusOr<int64_t> Count(Column column, int64_t low) const {
    if (Text(column).empty() && low == 0) return 0;
    const absl::StatusOr<int64_t> count =
        ParseInt(Text(column), low, kMaxCount);
    return count.ok() ? count : FieldError(column, count.status());
  }

  // Empty: 0.
  absl::StatusOr<double> Milliseconds(Column column) const {
    if (Text(column).empty()) return 0;
    const absl::StatusOr<double> ms = ParseDouble(Text(column), 0, 1e9);
    return ms.ok() ? ms : FieldError(column, ms.status());
  }

  // "1024", or "uniform[0.8*1024,1024]"; a note may follow.
  absl::StatusOr<TokenRange> Range(Column column) const {
    const absl::string_view spec = *absl::StrSplit(Text(column), ' ').begin();
    absl::string_view rest = spec;
    double share = 1;
    if (absl::ConsumePrefix(&rest, "uniform[") &&
        absl::ConsumeSuffix(&rest, "]")) {
      const std::vector<absl::string_view> parts =
          absl::StrSplit(rest, absl::ByAnyChar("*,"));
      if (parts.size() != 3 || parts[1] != parts[2]) {
        return FieldError(column, absl::InvalidArgumentError(
                                      "not uniform[SHARE*TOKENS,TOKENS]"));
      }
      const absl::StatusOr<double> parsed = ParseDouble(parts[0], 0.001, 1);
      if (!parsed.ok()) return FieldError(column, parsed.status());
      share = *parsed;
      rest = parts[2];
    }
    const absl::StatusOr<int64_t> tokens = ParseInt(rest, 1, kMaxCount);
    if (!tokens.ok()) return FieldError(column, tokens.status());
    TokenRange range;
    range.max = static_cast<int32_t>(*tokens);
    range.min =
        std::max(1, static_cast<int32_t>(share * static_cast<double>(*tokens)));
    return range;
  }

  LineReader lines_;
  std::array<size_t, kNumColumns> positions_{};
  size_t num_fields_ = 0;
  std::vector<absl::string_view> fields_;
  std::vector<std::unique_ptr<ClosedLoopPoint>> points_;
  std::vector<std::pair<const ClosedLoopPoint*, int64_t>> first_lines_;
  std::map<std::string, ClosedLoopPoint*> by_name_;
};

class TimesRecorder final : public RecordSink {
 public:
  void OnIteration(const IterationRecord& record) override {}
  void OnRequest(const RequestRecord& record) override {
    times.push_back({record.output_tokens, record.arrival, record.first_token,
                     record.last_token});
  }
  std::vector<RequestTimes> times;
};

void SetLengths(const TokenRange& range, LengthConfig* config) {
  if (range.min == range.max) {
    config->mutable_fixed()->set_tokens(range.max);
    return;
  }
  config->mutable_uniform()->set_min(range.min);
  config->mutable_uniform()->set_max(range.max);
}

double FrontEndMs(const SimulationConfig& server) {
  return server.cost().host_overhead().constant_us() * 1e-3;
}

void SetLoad(const ClosedLoopPoint& point, double front_end_ms,
             WorkloadConfig* workload) {
  GeneratorConfig& generator = *workload->mutable_generator();
  SetLengths(point.prompt, generator.mutable_prompt_tokens());
  SetLengths(point.output, generator.mutable_output_tokens());
  ClosedLoopConfig& loop = *workload->mutable_arrival()->mutable_closed_loop();
  loop.set_users(point.users);
  loop.set_start_gap_s(front_end_ms * 1e-3);
  loop.set_think_time_s(front_end_ms * 1e-3);
  workload->set_num_requests(point.num_requests > 0
                                 ? point.num_requests
                                 : kRequestsPerUser * point.users);
}

absl::StatusOr<int32_t> NumBlocks(const SimulationConfig& config) {
  ASSIGN_OR_RETURN(const ModelSpec model, LookupModel(config.cost().model()));
  ASSIGN_OR_RETURN(const DeviceSpec device,
                   LookupDevice(config.cost().device()));
  KvMemoryOptions options;
  options.gpu_memory_utilization = config.cache().gpu_memory_utilization();
  options.block_size = config.cache().block_size();
  options.tensor_parallel = config.cost().tensor_parallel();
  options.max_num_batched_tokens = config.limits().max_num_batched_tokens();
  options.max_num_seqs = std::min(config.limits().max_num_seqs(),
                                  config.limits().max_num_batched_tokens());
  options.runtime_bytes +=
      kSortBytesPerLogit * options.max_num_seqs * model.vocab_size();
  ASSIGN_OR_RETURN(const KvMemory memory,
                   DeriveKvMemory(model, device, options));
  return static_cast<int32_t>(std::min<int64_t>(
      memory.num_blocks, std::numeric_limits<int32_t>::max()));
}

MeanLatency RelativeError(const MeanLatency& predicted,
                          const MeanLatency& measured) {
  return {predicted.ttft / measured.ttft - 1,
          predicted.tpot / measured.tpot - 1};
}

// Errors by group, in order of the groups' names.
class Grouped {
 public:
  void Add(const std::string& group, const MeanLatency& error) {
    ClosedLoopErrors& sums = sums_[group];
    sums.group = group;
    ++sums.points;
    sums.mean_absolute.ttft += std::abs(error.ttft);
    sums.mean_absolute.tpot += std::abs(error.tpot);
    sums.bias.ttft += error.ttft;
    sums.bias.tpot += error.tpot;
  }

  void AppendTo(std::vector<ClosedLoopErrors>* out) const {
    for (const auto& [group, sums] : sums_) {
      const auto n = static_cast<double>(sums.points);
      out->push_back(
          {group,
           sums.points,
           {sums.mean_absolute.ttft / n, sums.mean_absolute.tpot / n},
           {sums.bias.ttft / n, sums.bias.tpot / n}});
    }
  }

 private:
  std::map<std::string, ClosedLoopErrors> sums_;
};

}  // namespace

absl::StatusOr<std::vector<ClosedLoopPoint>> ReadClosedLoopPoints(
    absl::string_view text, absl::string_view name) {
  return PointsReader(text, name).Read();
}

std::string ClosedLoopServerFile(const ClosedLoopPoint& point) {
  if (absl::StrContains(point.model, "Llama-3.3-70B") &&
      point.precision == "fp8") {
    return "vllm_0.10.2_llama3.3_70b_h100.textproto";
  }
  if (absl::StrContains(point.model, "Qwen3-32B") &&
      absl::StartsWith(point.precision, "bf16")) {
    return "vllm_0.12.0_qwen3_32b_h100.textproto";
  }
  return "";
}

absl::StatusOr<SimulationConfig> ClosedLoopRun(const ClosedLoopPoint& point,
                                               const SimulationConfig& server) {
  SimulationConfig config = server;
  SetLoad(point, FrontEndMs(server), config.mutable_workload());
  config.mutable_cost()->set_tensor_parallel(point.tensor_parallel);
  LimitsConfig& limits = *config.mutable_limits();
  if (!server.limits().has_max_num_seqs()) {
    limits.set_max_num_seqs(point.max_num_seqs > 0 ? point.max_num_seqs
                                                   : kMaxNumSeqs);
  }
  if (!server.limits().has_max_num_batched_tokens()) {
    limits.set_max_num_batched_tokens(
        point.max_num_batched_tokens > 0
            ? point.max_num_batched_tokens
            : point.prompt.max + kTokensBeyondPrompt + point.users);
  }
  if (!server.cache().has_num_blocks()) {
    ASSIGN_OR_RETURN(const int32_t num_blocks, NumBlocks(config));
    config.mutable_cache()->set_num_blocks(num_blocks);
  }
  return config;
}

absl::StatusOr<MeanLatency> SimulateClosedLoop(const ClosedLoopPoint& point,
                                               const SimulationConfig& server) {
  ASSIGN_OR_RETURN(const SimulationConfig config, ClosedLoopRun(point, server));
  TimesRecorder recorder;
  RunOptions options;
  options.sink = &recorder;
  RETURN_IF_ERROR(RunSimulation(config, options).status());
  const Latencies latencies = LatenciesOf(recorder.times);
  return MeanLatency{latencies.ttft.mean_nanos() / 1e6 + FrontEndMs(server),
                     latencies.tpot.mean_nanos() / 1e6};
}

std::vector<ClosedLoopErrors> SummarizeClosedLoop(
    absl::Span<const ClosedLoopResult> results) {
  Grouped by_model;
  Grouped by_degree;
  for (const ClosedLoopResult& result : results) {
    const ClosedLoopPoint& point = result.point;
    const MeanLatency error = RelativeError(result.simulated, point.measured);
    by_model.Add(point.model, error);
    by_degree.Add(absl::StrCat(point.model, " TP ", point.tensor_parallel),
                  error);
  }
  std::vector<ClosedLoopErrors> errors;
  by_model.AppendTo(&errors);
  by_degree.AppendTo(&errors);
  return errors;
}

std::vector<ClosedLoopErrors> CompareEstimators(
    absl::Span<const ClosedLoopResult> results) {
  Grouped grouped;
  const auto complete = [](const std::optional<MeanLatency>& latency) {
    return latency.has_value() && latency->ttft > 0 && latency->tpot > 0;
  };
  for (const ClosedLoopResult& result : results) {
    const ClosedLoopPoint& point = result.point;
    if (!complete(point.aiconfigurator) || !complete(point.aisimulate)) {
      continue;
    }
    const auto add = [&](const char* who, const MeanLatency& prediction) {
      grouped.Add(absl::StrCat(point.model, " by ", who),
                  RelativeError(prediction, point.measured));
    };
    add("Interleave", result.simulated);
    add("AIConfigurator", *point.aiconfigurator);
    add("AISimulate", *point.aisimulate);
  }
  std::vector<ClosedLoopErrors> errors;
  grouped.AppendTo(&errors);
  return errors;
}

std::string ToTable(absl::Span<const ClosedLoopResult> results) {
  std::string table =
      absl::StrFormat("%-36s %2s %5s %6s %6s %10s %10s %7s %8s %8s %7s\n",
                      "model", "TP", "users", "prompt", "output", "TTFT ms",
                      "simulated", "error", "TPOT ms", "simulated", "error");
  for (const ClosedLoopResult& result : results) {
    const ClosedLoopPoint& p = result.point;
    const MeanLatency error = RelativeError(result.simulated, p.measured);
    absl::StrAppendFormat(
        &table,
        "%-36s %2d %5d %6d %6d %10.1f %10.1f %+6.1f%% %8.2f %8.2f "
        "%+6.1f%%\n",
        p.model, p.tensor_parallel, p.users, p.prompt.max, p.output.max,
        p.measured.ttft, result.simulated.ttft, 100 * error.ttft,
        p.measured.tpot, result.simulated.tpot, 100 * error.tpot);
  }
  return table;
}

std::string ToTable(absl::Span<const ClosedLoopErrors> errors) {
  std::string table =
      absl::StrFormat("%-52s %6s %9s %7s %9s %7s\n", "mean absolute error",
                      "points", "TTFT", "bias", "TPOT", "bias");
  for (const ClosedLoopErrors& e : errors) {
    absl::StrAppendFormat(
        &table, "%-52s %6d %8.1f%% %+6.1f%% %8.1f%% %+6.1f%%\n", e.group,
        e.points, 100 * e.mean_absolute.ttft, 100 * e.bias.ttft,
        100 * e.mean_absolute.tpot, 100 * e.bias.tpot);
  }
  return table;
}

}  // namespace interleave::sim
