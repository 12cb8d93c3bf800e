#include "sim/profiling/profiler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/sim_time.h"
#include "base/status_macros.h"
#include "sim/cost/batch_shape.h"
#include "sim/cost/grid.h"
#include "sim/profiling/random_batches.h"

namespace interleave::sim {
namespace {

// Two measurements that differ by more than this get a third.
constexpr double kRepeatable = 0.01;
// Up to which share of the budget each stage may refine.
constexpr double kLinearShare = 0.12;
constexpr double kDecodeShare = 0.22;
constexpr double kPrefillShare = 0.28;
constexpr double kMixedShare = 0.92;
// The share that the first grid of mixed batches may take.
constexpr double kMixedGridShare = 0.45;
// Tokens by which the linear layers' curve steps; see MeasureLinear.
constexpr double kTokenStep = 8;
constexpr double kTile = 128;
// Batches in which the LM head is measured have this many tokens.
constexpr int32_t kLmHeadTokens = 512;
constexpr int32_t kShortKv = 16;

// first, first x ratio, ..., last.
std::vector<double> Geometric(double first, double ratio, double last) {
  std::vector<double> values;
  for (double x = first; x < last * 0.75; x *= ratio) values.push_back(x);
  values.push_back(last);
  return values;
}

// `first` before those that are above it.
std::vector<double> WithFirst(double first, const std::vector<double>& values) {
  std::vector<double> all = {first};
  for (const double value : values) {
    if (value > all.back()) all.push_back(std::round(value));
  }
  return all;
}

std::vector<double> WithZero(const std::vector<double>& values) {
  return WithFirst(0, values);
}

// 1, a quarter, ... of `last`, in whole numbers.
std::vector<double> Shares(double last, absl::Span<const double> shares) {
  std::vector<double> values = {1};
  for (const double share : shares) {
    const double x = std::round(last * share);
    if (x > values.back()) values.push_back(x);
  }
  return values;
}

int32_t Whole(double x) { return static_cast<int32_t>(std::lround(x)); }

// On the line between neighbours.
double Interpolate(const std::map<double, double>& points, double x) {
  Curve curve;
  for (const auto& [at, value] : points) {
    curve.x.push_back(at);
    curve.y.push_back(value);
  }
  bool outside = false;
  return curve.At(x, &outside);
}

}  // namespace

Profiler::Profiler(ProfilerOptions options, BatchTimer* timer, Journal* journal)
    : options_(std::move(options)),
      timer_(timer),
      journal_(journal),
      begin_(options_.now()),
      stage_begin_(begin_) {}

double Profiler::UsedShare() const {
  return absl::FDivDuration(options_.now() - begin_, options_.budget);
}

void Profiler::StartStage(const std::string& name) {
  data_.stages.push_back({name, 0, {}});
  stage_measurements_ = 0;
  stage_begin_ = options_.now();
}

std::function<bool(int64_t)> Profiler::AffordableUntil(double share) {
  return [this, share](int64_t more) {
    const absl::Time now = options_.now();
    // A batch takes what those of this stage took so far.
    const absl::Duration each =
        (now - stage_begin_) / std::max<int64_t>(1, stage_measurements_);
    return now + each * more <= begin_ + options_.budget * share;
  };
}

absl::StatusOr<BatchTime> Profiler::Run(const MeasuredBatch& batch) {
  // Engines choose kernels, or capture graphs, by size when they first see one.
  const std::string size =
      absl::StrCat(batch.num_tokens(), batch.chunks.empty() ? "d" : "p",
                   batch.skip_attention);
  if (warm_.insert(size).second) RETURN_IF_ERROR(timer_->Time(batch).status());
  ASSIGN_OR_RETURN(const BatchTime first, timer_->Time(batch));
  ASSIGN_OR_RETURN(const BatchTime second, timer_->Time(batch));
  const BatchTime* low = &first;
  const BatchTime* high = &second;
  if (low->device > high->device) std::swap(low, high);
  const double apart =
      static_cast<double>((high->device - low->device).nanos());
  if (apart <= kRepeatable * static_cast<double>(low->device.nanos())) {
    return BatchTime{
        SimDuration::Nanos((first.device.nanos() + second.device.nanos()) / 2),
        std::min(first.host, second.host)};
  }
  ASSIGN_OR_RETURN(const BatchTime third, timer_->Time(batch));
  BatchTime median;
  median.device = std::clamp(third.device, low->device, high->device);
  median.host =
      std::max(std::min(first.host, second.host),
               std::min(std::max(first.host, second.host), third.host));
  return median;
}

absl::StatusOr<BatchTime> Profiler::Time(const MeasuredBatch& batch) {
  const std::string key = KeyOf(batch);
  std::optional<BatchTime> time = journal_->Find(key);
  if (!time.has_value()) {
    ASSIGN_OR_RETURN(time, Run(batch));
    RETURN_IF_ERROR(journal_->Add(key, *time));
  }
  ++stage_measurements_;
  if (!data_.stages.empty()) ++data_.stages.back().measurements;
  if (!batch.skip_attention) {
    host_.push_back(
        {static_cast<double>(batch.num_sequences()), time->host.micros()});
  }
  if (options_.progress && !options_.progress(std::min(1.0, UsedShare()))) {
    return absl::CancelledError("stopped");
  }
  return *time;
}

absl::StatusOr<double> Profiler::DeviceUs(const MeasuredBatch& batch) {
  ASSIGN_OR_RETURN(const BatchTime time, Time(batch));
  return time.device.micros();
}

absl::StatusOr<double> Profiler::LinearUs(double tokens) {
  const auto found = data_.iteration.find(tokens);
  if (found != data_.iteration.end()) return found->second;
  MeasuredBatch batch = Mixed({Whole(tokens), 0}, 0, 0);
  batch.skip_attention = true;
  ASSIGN_OR_RETURN(const double us, DeviceUs(batch));
  data_.iteration[tokens] = us;
  return us;
}

int32_t Profiler::GraphSize(double sequences) const {
  const auto found =
      std::lower_bound(options_.graph_sizes.begin(), options_.graph_sizes.end(),
                       Whole(sequences));
  return found == options_.graph_sizes.end() ? Whole(sequences) : *found;
}

absl::StatusOr<double> Profiler::DecodeLinearUs(double sequences) {
  const int32_t size = GraphSize(sequences);
  const auto found = data_.decode_iteration.find(size);
  if (found != data_.decode_iteration.end()) return found->second;
  MeasuredBatch batch = Decodes(size, kShortKv);
  batch.skip_attention = true;
  ASSIGN_OR_RETURN(const double us, DeviceUs(batch));
  data_.decode_iteration[size] = us;
  return us;
}

absl::StatusOr<double> Profiler::LmHeadUs(double sequences) const {
  return Interpolate(data_.lm_head, sequences);
}

// The curve steps where a matrix product needs one tile more: bisection finds
// the steps.
absl::Status Profiler::MeasureLinear() {
  StartStage("linear layers");
  const double last = options_.max_chunk + options_.max_sequences;
  SampledGrid grid;
  grid.axes = {Geometric(1, 4, std::min(kTile, last))};
  for (double tokens = 2 * kTile; tokens < last; tokens += kTile) {
    grid.axes[0].push_back(tokens);
  }
  if (grid.axes[0].back() < last) grid.axes[0].push_back(last);
  const SampleFunction sample =
      [this](absl::Span<const double> at) -> absl::StatusOr<GridSample> {
    ASSIGN_OR_RETURN(const double us, LinearUs(at[0]));
    return GridSample{us, us};
  };
  RETURN_IF_ERROR(MeasureGrid(sample, options_.seed, &grid));
  // What is left of steps adds up with attention's misses.
  return Refine(sample, {kTokenStep}, options_.tolerance / 2, kLinearShare,
                &grid);
}

absl::Status Profiler::MeasureLmHead() {
  StartStage("LM head");
  const int32_t tokens = std::max(options_.max_sequences,
                                  std::min(kLmHeadTokens, options_.max_chunk));
  std::map<double, double> total;
  for (const double count : Geometric(1, 2, options_.max_sequences)) {
    MeasuredBatch batch;
    batch.skip_attention = true;
    // `count` prompts that share the tokens.
    const int32_t n = Whole(count);
    for (int32_t i = 0; i < n; ++i) {
      batch.chunks.push_back({tokens / n + (i < tokens % n ? 1 : 0), 0});
    }
    ASSIGN_OR_RETURN(total[count], DeviceUs(batch));
  }
  for (const auto& [count, us] : total) {
    data_.lm_head[count] = std::max(0.0, us - total[1]);
  }
  return absl::OkStatus();
}

absl::Status Profiler::MeasureDecodeLinear() {
  StartStage("decodes without attention");
  std::vector<double> sizes(options_.graph_sizes.begin(),
                            options_.graph_sizes.end());
  if (sizes.empty()) sizes = Geometric(1, 2, options_.max_sequences);
  for (const double size : sizes) {
    RETURN_IF_ERROR(DecodeLinearUs(size).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<GridSample> Profiler::Attention(const MeasuredBatch& batch,
                                               double linear_us) {
  ASSIGN_OR_RETURN(const double us, DeviceUs(batch));
  const double layers = options_.num_layers;
  return GridSample{std::max(0.0, us - linear_us) / layers, us / layers};
}

absl::StatusOr<GridSample> Profiler::SampleDecode(absl::Span<const double> at) {
  ASSIGN_OR_RETURN(const double linear, DecodeLinearUs(at[0]));
  return Attention(Decodes(Whole(at[0]), Whole(at[1])), linear);
}

absl::StatusOr<GridSample> Profiler::SamplePrefill(
    absl::Span<const double> at) {
  ASSIGN_OR_RETURN(const double linear, LinearUs(at[0]));
  return Attention(Mixed({Whole(at[0]), Whole(at[1])}, 0, 0), linear);
}

absl::StatusOr<GridSample> Profiler::SampleMixed(absl::Span<const double> at) {
  ASSIGN_OR_RETURN(const double linear, LinearUs(at[0] + at[2]));
  ASSIGN_OR_RETURN(const double lm_head, LmHeadUs(1 + at[2]));
  return Attention(
      Mixed({Whole(at[0]), Whole(at[1])}, Whole(at[2]), Whole(at[3])),
      linear + lm_head);
}

absl::Status Profiler::Refine(const SampleFunction& sample,
                              std::vector<double> step, double tolerance,
                              double share, SampledGrid* grid) {
  RefineOptions options;
  options.tolerance = tolerance;
  options.step = std::move(step);
  options.affordable = AffordableUntil(share);
  options.seed = options_.seed + 1;
  ASSIGN_OR_RETURN(data_.stages.back().refined,
                   RefineGrid(sample, options, grid));
  return absl::OkStatus();
}

absl::Status Profiler::MeasureDecode() {
  StartStage("decodes");
  const SampleFunction sample = [this](absl::Span<const double> at) {
    return SampleDecode(at);
  };
  data_.decode.axes = {
      Shares(options_.max_sequences, {1.0 / 128, 1.0 / 64, 1.0 / 32, 1.0 / 16,
                                      0.125, 0.25, 0.375, 0.5, 0.75, 1}),
      Geometric(kShortKv, 4, options_.max_kv)};
  RETURN_IF_ERROR(MeasureGrid(sample, options_.seed, &data_.decode));
  return Refine(sample, {2, 64}, options_.tolerance, kDecodeShare,
                &data_.decode);
}

absl::Status Profiler::MeasurePrefill() {
  StartStage("one chunk");
  const SampleFunction sample = [this](absl::Span<const double> at) {
    return SamplePrefill(at);
  };
  data_.prefill.axes = {
      Geometric(kShortKv, 2, options_.max_chunk),
      WithZero(Geometric(options_.max_context / 16, 4, options_.max_context))};
  RETURN_IF_ERROR(MeasureGrid(sample, options_.seed, &data_.prefill));
  return Refine(sample, {16, 128}, options_.tolerance, kPrefillShare,
                &data_.prefill);
}

double Profiler::EstimateMixedSeconds(
    const std::vector<std::vector<double>>& axes) const {
  const Grid prefill = data_.prefill.ToGrid();
  const Grid decode = data_.decode.ToGrid();
  double us = 0;
  bool outside = false;
  for (const std::vector<double>& at : ShuffledPlaces(axes, 1)) {
    us += Interpolate(data_.iteration, at[0] + at[2]);
    us += options_.num_layers * (prefill.At({at[0], at[1]}, &outside) +
                                 decode.At({at[2], at[3]}, &outside));
  }
  // Each twice, and now and then again.
  return us * 2.2 / 1e6;
}

// The finest grid that the budget allows.
std::vector<std::vector<double>> Profiler::MixedAxes() const {
  const double chunk = options_.max_chunk;
  const double context = options_.max_context;
  const double sequences = options_.max_sequences;
  const double kv = options_.max_kv;
  const std::vector<std::vector<double>> levels[] = {
      {Geometric(kShortKv, 2, chunk),
       WithZero(Geometric(context / 8, 2, context)),
       Shares(sequences, {1.0 / 32, 0.125, 0.25, 0.5, 0.75, 1}),
       WithFirst(kShortKv, Geometric(kv / 16, 2, kv))},
      {Geometric(kShortKv, 2, chunk), WithZero({context / 4, context}),
       Shares(sequences, {1.0 / 32, 0.125, 0.25, 0.5, 1}),
       Geometric(kShortKv, 8, kv)},
      {Geometric(kShortKv, 4, chunk), WithZero({context / 4, context}),
       Shares(sequences, {0.125, 0.25, 1}), Geometric(kShortKv, 16, kv)},
      {Geometric(kShortKv, 8, chunk), WithZero({context}),
       Shares(sequences, {0.125, 1}), Geometric(kShortKv, 64, kv)},
  };
  const double left =
      absl::ToDoubleSeconds(begin_ + options_.budget - options_.now());
  const double allowed =
      std::min(left, kMixedGridShare * absl::ToDoubleSeconds(options_.budget));
  for (const auto& axes : levels) {
    if (EstimateMixedSeconds(axes) <= allowed) return axes;
  }
  return levels[3];
}

absl::Status Profiler::MeasureMixed() {
  StartStage("chunks beside decodes");
  const SampleFunction sample = [this](absl::Span<const double> at) {
    return SampleMixed(at);
  };
  data_.mixed.axes = MixedAxes();
  RETURN_IF_ERROR(MeasureGrid(sample, options_.seed, &data_.mixed));
  return Refine(sample, {16, 256, 8, 128}, options_.tolerance, kMixedShare,
                &data_.mixed);
}

absl::Status Profiler::MeasureSkew() {
  StartStage("decodes of uneven lengths");
  const Grid decode = data_.decode.ToGrid();
  Rng rng = Rng(options_.seed).Fork("skew");
  for (const double n : Shares(
           options_.max_sequences,
           {1.0 / 64, 1.0 / 32, 1.0 / 16, 0.125, 0.25, 0.375, 0.5, 0.75, 1})) {
    if (n < 2) continue;
    for (const double sigma : {0.4, 0.7, 1.0}) {
      for (const double share : {0.05, 0.1, 0.15, 0.25}) {
        const std::vector<int32_t> lengths = UnevenLengths(
            rng, Whole(n), share * options_.max_kv, sigma, options_.max_kv);
        RETURN_IF_ERROR(AddSkew(decode, lengths));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Profiler::AddSkew(const Grid& decode,
                               const std::vector<int32_t>& lengths) {
  MeasuredBatch batch;
  batch.decode_kv = lengths;
  const DecodeGroup group = batch.shape().decode;
  SkewSample sample;
  sample.sequences = static_cast<double>(group.count);
  sample.mean = static_cast<double>(group.kv_tokens) / sample.sequences;
  sample.longest = static_cast<double>(group.kv_tokens_max);
  const double variance =
      static_cast<double>(group.kv_tokens_squared) / sample.sequences -
      sample.mean * sample.mean;
  const double above = sample.longest - sample.mean;
  if (above <= 0) return absl::OkStatus();
  sample.skew_rate = variance / (variance + above * above);
  ASSIGN_OR_RETURN(const double linear, DecodeLinearUs(sample.sequences));
  ASSIGN_OR_RETURN(const GridSample measured, Attention(batch, linear));
  sample.time_us = measured.value;
  bool outside = false;
  const double at_mean = decode.At({sample.sequences, sample.mean}, &outside);
  const double at_longest =
      decode.At({sample.sequences, sample.longest}, &outside);
  // Where length costs nothing, nor does its spread.
  if (at_longest <= at_mean) return absl::OkStatus();
  sample.alpha = (sample.time_us - at_mean) / (at_longest - at_mean);
  data_.skew.push_back(sample);
  return absl::OkStatus();
}

// Least squares, neither part below 0.
void Profiler::FitHost() {
  double n = 0;
  double x = 0;
  double y = 0;
  double xx = 0;
  double xy = 0;
  for (const HostSample& sample : host_) {
    n += 1;
    x += sample.sequences;
    y += sample.us;
    xx += sample.sequences * sample.sequences;
    xy += sample.sequences * sample.us;
  }
  if (n == 0) return;
  const double spread = n * xx - x * x;
  double slope = spread > 0 ? std::max(0.0, (n * xy - x * y) / spread) : 0.0;
  double constant = (y - slope * x) / n;
  if (constant < 0) {
    constant = 0;
    slope = xy / xx;
  }
  data_.host_constant_us = constant;
  data_.host_per_sequence_us = slope;
}

absl::StatusOr<ProfileData> Profiler::Measure() {
  RETURN_IF_ERROR(MeasureLinear());
  RETURN_IF_ERROR(MeasureLmHead());
  RETURN_IF_ERROR(MeasureDecodeLinear());
  RETURN_IF_ERROR(MeasureDecode());
  RETURN_IF_ERROR(MeasureSkew());
  RETURN_IF_ERROR(MeasurePrefill());
  RETURN_IF_ERROR(MeasureMixed());
  FitHost();
  return data_;
}

absl::StatusOr<std::vector<CheckRow>> Profiler::Check(CostModel& model,
                                                      int count) {
  StartStage("check");
  Rng rng = Rng(options_.seed).Fork("check");
  BatchLimits limits;
  limits.max_tokens = options_.max_chunk;
  limits.max_context = options_.max_context;
  limits.max_sequences = options_.max_sequences;
  limits.max_kv = options_.max_kv;
  std::vector<CheckRow> rows;
  for (int i = 0; i < count; ++i) {
    const MeasuredBatch batch = RandomBatch(rng, limits);
    CheckRow row;
    row.batch = KeyOf(batch);
    ASSIGN_OR_RETURN(row.measured_us, DeviceUs(batch));
    const int64_t outside = model.stats().outside_grid;
    row.predicted_us = model.IterationTime(batch.shape()).micros();
    row.outside_grid = model.stats().outside_grid > outside;
    rows.push_back(row);
  }
  return rows;
}

CheckSummary Summarize(absl::Span<const CheckRow> rows) {
  CheckSummary summary;
  if (rows.empty()) return summary;
  std::vector<double> errors;
  for (const CheckRow& row : rows) {
    const double error = row.predicted_us / row.measured_us - 1;
    errors.push_back(std::abs(error));
    summary.bias += error / static_cast<double>(rows.size());
    summary.mean_error += std::abs(error) / static_cast<double>(rows.size());
  }
  std::sort(errors.begin(), errors.end());
  summary.p95_error = errors[static_cast<size_t>(
      0.95 * static_cast<double>(errors.size() - 1))];
  return summary;
}

}  // namespace interleave::sim
