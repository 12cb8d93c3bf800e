#include "sim/profiling/profiler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/sim_time.h"
#include "base/statistics.h"
#include "base/status_macros.h"
#include "sim/cost/batch_shape.h"
#include "sim/cost/grid.h"
#include "sim/cost/throttle.h"
#include "sim/profiling/calibration.h"
#include "sim/profiling/card_timer.h"
#include "sim/profiling/grid_axes.h"
#include "sim/profiling/pieces.h"
#include "sim/profiling/random_batches.h"
#include "sim/profiling/serve.h"

namespace interleave::sim {
namespace {

// Batches that are measured in turns; their visits end up some 100 ms apart.
constexpr size_t kTogether = 64;
constexpr int kVisits = 5;
// Which sequences are decoded together matters by more than their lengths say,
// some 1%, and each visit has others; the many chunks beside decodes make up
// for it by their number.
constexpr int kDecodeVisits = 9;
constexpr int kMixedVisits = 3;
// Batches during which the card recovers.
constexpr int32_t kOwnDecodes = 8;
constexpr int32_t kOwnDecodeKv = 1024;
// Rows of prompts and of decodes that show how the card is throttled: of so
// many tokens in all, and up to so many decodes.
constexpr int32_t kThrottlePrompts[] = {256, 512, 1024};
constexpr int kThrottleRounds = 8;
constexpr int64_t kLongestRow = 8192;
constexpr int64_t kRecovery = 40;
// Batches that are served, and that the tables are held against.
constexpr size_t kMostServed = 16'000;
constexpr size_t kFewestServed = 600;
// Rounds after which values that follow from each other have settled.
constexpr int kSettled = 6;
// Up to which share of the budget each stage may refine.
constexpr double kLinearShare = 0.2;
constexpr double kDecodeShare = 0.3;
constexpr double kPrefillShare = 0.38;
constexpr double kMixedShare = 0.68;
constexpr double kServedShare = 0.96;
// What is planned to be served of what is left, so that no policy is cut short.
constexpr double kPlannedShare = 0.92;
constexpr absl::Duration kShortestServed = absl::Seconds(5);
// The share that the first grid of mixed batches may take.
constexpr double kMixedGridShare = 0.3;
// Tokens by which the linear layers' curve is refined.
constexpr double kTokenStep = 8;
constexpr int32_t kShortKv = 16;

int VisitsOf(const MeasuredBatch& batch) {
  if (batch.chunks.empty()) return kDecodeVisits;
  return batch.decode_kv.empty() ? kVisits : kMixedVisits;
}

// Without what the tables say.
SeriesSample SampleOf(const BatchShape& shape, const BatchTime& time) {
  SeriesSample sample;
  sample.tokens_beside_prefill = shape.tokens_beside_prefill();
  sample.decodes = shape.decode.count;
  sample.device_us = time.device.micros();
  return sample;
}

struct Prediction {
  double us = 0;
  bool outside_grid = false;
};

Prediction Ask(CostModel& model, const BatchShape& shape) {
  const int64_t outside = model.stats().outside_grid;
  const double us = model.IterationTime(shape).micros();
  return {us, model.stats().outside_grid > outside};
}

// Of decodes their number, and of their lengths the sum, the sum of squares and
// the largest.
std::string ServedKey(const BatchShape& shape) {
  const DecodeGroup& decode = shape.decode;
  return absl::StrCat(KeyOf(shape.prefill), "|", decode.count, ":",
                      decode.kv_tokens, ":", decode.kv_tokens_squared, ":",
                      decode.kv_tokens_max);
}

// There are no tables yet: those that are alike take on a recovered card about
// what the fastest tenth of them took. Their levels say the rest.
void AssumeFastest(std::vector<SeriesSample>* series) {
  constexpr double kFastest = 0.1;
  std::map<int64_t, std::vector<double>> times;
  for (const SeriesSample& s : *series) {
    times[s.tokens_beside_prefill].push_back(s.device_us);
  }
  std::map<int64_t, double> fastest;
  for (auto& [tokens, us] : times) {
    fastest[tokens] = Quantile(std::move(us), kFastest);
  }
  for (SeriesSample& s : *series) {
    s.table_us = fastest[s.tokens_beside_prefill];
  }
}

void Append(std::vector<MeasuredBatch> more,
            std::vector<MeasuredBatch>* batches) {
  for (MeasuredBatch& batch : more) batches->push_back(std::move(batch));
}

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
      pieces_{options_.num_layers, options_.memory_tokens},
      timer_(Decodes(std::min(kOwnDecodes, options_.limits.max_sequences),
                     std::min(kOwnDecodeKv, options_.limits.max_kv)),
             timer,
             [this] {
               return !options_.progress ||
                      options_.progress(std::min(1.0, UsedShare()));
             }),
      journal_(journal),
      order_rng_(Rng(options_.seed).Fork("order")),
      layer_fit_(options_.num_layers),
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

double Profiler::RecoveredUs(const MeasuredBatch& batch, double us,
                             double state) const {
  const Throttle& throttle = timer_.throttle();
  const int64_t tokens = throttle.TokensOf(batch.shape());
  double recovered = us;
  for (int round = 0; round < kSettled; ++round) {
    recovered = us / (1 + throttle.Slowdown(tokens) *
                              throttle.MeanState(tokens, recovered, state));
  }
  return recovered;
}

// An engine may capture a graph when it first sees a size.
absl::Status Profiler::Warm(const MeasuredBatch& batch) {
  if (!batch.chunks.empty()) return absl::OkStatus();
  const std::string size =
      absl::StrCat(batch.decode_kv.size(), static_cast<int>(batch.part));
  if (!warm_.insert(size).second) return absl::OkStatus();
  return timer_.Time(batch).status();
}

absl::Status Profiler::MeasureSome(absl::Span<const MeasuredBatch> batches) {
  struct Samples {
    std::vector<double> device_us;
    std::vector<double> host_us;
  };
  std::vector<Samples> samples(batches.size());
  // Behind another batch each time.
  std::vector<size_t> order(batches.size());
  std::iota(order.begin(), order.end(), 0);
  for (int turn = 0; turn < kDecodeVisits; ++turn) {
    order_rng_.Shuffle(order);
    for (const size_t i : order) {
      if (turn >= VisitsOf(batches[i])) continue;
      MeasuredBatch batch = batches[i];
      if (batch.typical_mean > 0) {
        batch.decode_kv =
            TypicalLengths(static_cast<int32_t>(batch.decode_kv.size()),
                           batch.typical_mean, static_cast<uint64_t>(turn));
      }
      RETURN_IF_ERROR(Warm(batch));
      RETURN_IF_ERROR(timer_.Recover());
      // In an engine, decodes mostly follow themselves. Behind others they took
      // 30 to 150 us more on an H200, and it is not known why.
      if (batch.chunks.empty()) RETURN_IF_ERROR(timer_.Time(batch).status());
      const double state = timer_.state();
      ASSIGN_OR_RETURN(const BatchTime time, timer_.Time(batch));
      samples[i].device_us.push_back(
          RecoveredUs(batch, time.device.micros(), state));
      samples[i].host_us.push_back(time.host.micros());
    }
  }
  for (size_t i = 0; i < batches.size(); ++i) {
    RETURN_IF_ERROR(journal_->Add(
        KeyOf(batches[i]),
        {SimDuration::Micros(Median(std::move(samples[i].device_us))),
         SimDuration::Micros(Median(std::move(samples[i].host_us)))}));
  }
  return absl::OkStatus();
}

absl::Status Profiler::MeasureAll(std::vector<MeasuredBatch> batches) {
  std::set<std::string> seen;
  std::vector<MeasuredBatch> missing;
  for (MeasuredBatch& batch : batches) {
    const std::string key = KeyOf(batch);
    if (journal_->Find(key).has_value() || !seen.insert(key).second) continue;
    missing.push_back(std::move(batch));
  }
  for (size_t begin = 0; begin < missing.size(); begin += kTogether) {
    RETURN_IF_ERROR(
        MeasureSome(absl::MakeConstSpan(missing).subspan(begin, kTogether)));
  }
  return absl::OkStatus();
}

absl::StatusOr<double> Profiler::DeviceUs(const MeasuredBatch& batch) {
  const std::string key = KeyOf(batch);
  if (!journal_->Find(key).has_value()) RETURN_IF_ERROR(MeasureAll({batch}));
  ++stage_measurements_;
  if (!data_.stages.empty()) ++data_.stages.back().measurements;
  return journal_->Find(key)->device.micros();
}

absl::StatusOr<double> Profiler::LinearUs(double tokens) {
  const auto found = data_.iteration.find(tokens);
  if (found != data_.iteration.end()) return found->second;
  const std::vector<MeasuredBatch> pieces = LinearPieces(tokens, pieces_);
  ASSIGN_OR_RETURN(double us, DeviceUs(pieces[0]));
  if (pieces.size() > 1) {
    ASSIGN_OR_RETURN(const double one_us, DeviceUs(pieces[1]));
    const double layers = pieces[0].layers;
    us = layer_fit_.Add(tokens, {layers, us, one_us});
  }
  data_.iteration[tokens] = us;
  return us;
}

std::vector<MeasuredBatch> Profiler::PiecesOf(double tokens,
                                              MeasuredBatch batch) const {
  std::vector<MeasuredBatch> pieces = LinearPieces(tokens, pieces_);
  Append(AttentionPieces(std::move(batch), pieces_), &pieces);
  return pieces;
}

MeasuredBatch Profiler::DecodeLinearBatch(double sequences) const {
  MeasuredBatch batch = Decodes(GraphSize(sequences), kShortKv);
  batch.part = BatchPart::kWithoutAttention;
  return batch;
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
  ASSIGN_OR_RETURN(const double us, DeviceUs(DecodeLinearBatch(sequences)));
  data_.decode_iteration[size] = us;
  return us;
}

double Profiler::LmHeadUs(double sequences) const {
  return Interpolate(data_.lm_head, sequences);
}

absl::StatusOr<BatchTime> Profiler::RunNth(const char* series, int64_t n,
                                           const MeasuredBatch& batch) {
  const std::string key = absl::StrCat(series, " ", n, " ", KeyOf(batch));
  if (std::optional<BatchTime> known = journal_->Find(key)) return *known;
  ASSIGN_OR_RETURN(const BatchTime time, timer_.Time(batch));
  RETURN_IF_ERROR(journal_->Add(key, time));
  return time;
}

// How fast the card is throttled, so that all else can be measured as on one
// that has recovered.
absl::Status Profiler::MeasureThrottle() {
  StartStage("throttling");
  // An engine that takes no more at once is hardly throttled.
  if (options_.limits.max_chunk < *std::rbegin(kThrottlePrompts)) {
    return absl::OkStatus();
  }
  std::vector<SeriesSample> series;
  int64_t n = 0;
  const auto run = [&](const MeasuredBatch& batch, int64_t times) {
    for (; times > 0; --times) {
      ASSIGN_OR_RETURN(const BatchTime time, RunNth("throttle", n++, batch));
      series.push_back(SampleOf(batch.shape(), time));
    }
    return absl::OkStatus();
  };
  // What a first launch takes is nobody's time.
  for (const int32_t tokens : kThrottlePrompts) {
    RETURN_IF_ERROR(run(Mixed({tokens, 0}, 0, 0), 2));
  }
  RETURN_IF_ERROR(run(timer_.decodes(), 2 * kRecovery));
  series.clear();
  Rng rng = Rng(options_.seed).Fork("throttle");
  for (int round = 0; round < kThrottleRounds; ++round) {
    for (const int32_t tokens : kThrottlePrompts) {
      RETURN_IF_ERROR(run(Mixed({tokens, 0}, 0, 0),
                          rng.UniformInt(1, kLongestRow / tokens)));
      RETURN_IF_ERROR(run(timer_.decodes(), rng.UniformInt(2, kRecovery)));
    }
  }
  data_.stages.back().measurements = n;
  AssumeFastest(&series);
  data_.throttle = sim::Calibrate(series, options_.memory_tokens).throttle;
  timer_.set_throttle(data_.throttle);
  return absl::OkStatus();
}

absl::Status Profiler::MeasureLinear() {
  StartStage("linear layers");
  SampledGrid grid;
  grid.axes = {LinearAxis(options_.limits)};
  const GridFunction function = FunctionOf(
      [this](absl::Span<const double> at) -> absl::StatusOr<GridSample> {
        ASSIGN_OR_RETURN(const double us, LinearUs(at[0]));
        return GridSample{us, us};
      },
      [this](absl::Span<const double> at) {
        return LinearPieces(at[0], pieces_);
      });
  RETURN_IF_ERROR(MeasureGrid(function, options_.seed, &grid));
  RETURN_IF_ERROR(Refine(function, {kTokenStep}, kLinearShare, &grid));
  layer_fit_.FitOutside();
  for (const auto& [tokens, us] : layer_fit_.All()) {
    data_.iteration[tokens] = us;
  }
  return absl::OkStatus();
}

// In batches of two tokens a sequence and of one layer, where everything else
// takes the least, against two sequences that share as many tokens.
absl::Status Profiler::MeasureLmHead() {
  StartStage("LM head");
  data_.lm_head = {{1, 0}, {2, 0}};
  if (options_.limits.max_sequences <= 2) return absl::OkStatus();
  struct Pair {
    MeasuredBatch many;
    MeasuredBatch two;
  };
  std::map<double, Pair> pairs;
  std::vector<MeasuredBatch> all;
  for (const double count : Geometric(4, 2, options_.limits.max_sequences)) {
    const int32_t n = Whole(count);
    Pair& pair = pairs[count];
    pair.many.part = pair.two.part = BatchPart::kWithoutAttention;
    if (options_.num_layers > 1) pair.many.layers = pair.two.layers = 1;
    pair.many.chunks.assign(static_cast<size_t>(n), {2, 0});
    pair.two.chunks = {{2 * n - 2, 0}, {2, 0}};
    all.push_back(pair.many);
    all.push_back(pair.two);
  }
  RETURN_IF_ERROR(MeasureAll(std::move(all)));
  double most = 0;
  for (const auto& [count, pair] : pairs) {
    ASSIGN_OR_RETURN(const double many, DeviceUs(pair.many));
    ASSIGN_OR_RETURN(const double two, DeviceUs(pair.two));
    most = std::max(most, many - two);
    data_.lm_head[count] = most;
  }
  return absl::OkStatus();
}

absl::Status Profiler::MeasureDecodeLinear() {
  StartStage("decodes without attention");
  std::vector<double> sizes(options_.graph_sizes.begin(),
                            options_.graph_sizes.end());
  if (sizes.empty()) sizes = Geometric(1, 2, options_.limits.max_sequences);
  std::vector<MeasuredBatch> batches;
  for (const double size : sizes) batches.push_back(DecodeLinearBatch(size));
  RETURN_IF_ERROR(MeasureAll(std::move(batches)));
  for (const double size : sizes) {
    RETURN_IF_ERROR(DecodeLinearUs(size).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<GridSample> Profiler::Attention(const MeasuredBatch& batch,
                                               double rest_us) {
  const std::vector<MeasuredBatch> batches = AttentionPieces(batch, pieces_);
  ASSIGN_OR_RETURN(const double us, DeviceUs(batches[0]));
  double attention = us - rest_us;
  double layers = options_.num_layers;
  if (batches.size() > 1) {
    ASSIGN_OR_RETURN(const double one_us, DeviceUs(batches[1]));
    attention = us - one_us;
    layers = batches[0].layers - 1;
  }
  attention = std::max(0.0, attention) / layers;
  return GridSample{attention, attention + rest_us / options_.num_layers};
}

absl::StatusOr<GridSample> Profiler::SampleDecode(absl::Span<const double> at) {
  ASSIGN_OR_RETURN(const double linear, DecodeLinearUs(at[0]));
  return Attention(DecodesAt(at), linear);
}

absl::StatusOr<GridSample> Profiler::SamplePrefill(
    absl::Span<const double> at) {
  ASSIGN_OR_RETURN(const double linear, LinearUs(at[0]));
  return Attention(PrefillAt(at), linear);
}

absl::StatusOr<GridSample> Profiler::SampleMixed(absl::Span<const double> at) {
  ASSIGN_OR_RETURN(const double linear, LinearUs(at[0] + at[2]));
  return Attention(MixedAt(at), linear + LmHeadUs(1 + at[2]));
}

GridFunction Profiler::FunctionOf(SampleFunction sample, BatchesAt batches_at) {
  GridFunction function;
  function.sample = std::move(sample);
  function.prepare = [this, batches_at = std::move(batches_at)](
                         absl::Span<const std::vector<double>> places) {
    std::vector<MeasuredBatch> batches;
    for (const auto& at : places) Append(batches_at(at), &batches);
    return MeasureAll(std::move(batches));
  };
  return function;
}

absl::Status Profiler::Refine(const GridFunction& function,
                              std::vector<double> step, double share,
                              SampledGrid* grid) {
  RefineOptions options;
  options.tolerance = options_.tolerance;
  options.step = std::move(step);
  options.affordable = AffordableUntil(share);
  options.seed = options_.seed + 1;
  ASSIGN_OR_RETURN(data_.stages.back().refined,
                   RefineGrid(function, options, grid));
  return absl::OkStatus();
}

absl::Status Profiler::MeasureDecode() {
  StartStage("decodes");
  const GridFunction function = FunctionOf(
      [this](absl::Span<const double> at) { return SampleDecode(at); },
      [this](absl::Span<const double> at) {
        return std::vector{DecodeLinearBatch(at[0]), DecodesAt(at)};
      });
  data_.decode.axes = DecodeAxes(options_.limits);
  RETURN_IF_ERROR(MeasureGrid(function, options_.seed, &data_.decode));
  return Refine(function, {2, 64}, kDecodeShare, &data_.decode);
}

absl::Status Profiler::MeasurePrefill() {
  StartStage("one chunk");
  const GridFunction function = FunctionOf(
      [this](absl::Span<const double> at) { return SamplePrefill(at); },
      [this](absl::Span<const double> at) {
        return PiecesOf(at[0], PrefillAt(at));
      });
  data_.prefill.axes = PrefillAxes(options_.limits);
  RETURN_IF_ERROR(MeasureGrid(function, options_.seed, &data_.prefill));
  return Refine(function, {16, 128}, kPrefillShare, &data_.prefill);
}

double Profiler::EstimateMixedSeconds(
    const std::vector<std::vector<double>>& axes) const {
  const Grid prefill = data_.prefill.ToGrid();
  const Grid decode = data_.decode.ToGrid();
  double seconds = 0;
  bool outside = false;
  for (const std::vector<double>& at : ShuffledPlaces(axes, 1)) {
    const double attention = prefill.At({at[0], at[1]}, &outside) +
                             decode.At({at[2], at[3]}, &outside);
    const std::vector<MeasuredBatch> batches =
        AttentionPieces(MixedAt(at), pieces_);
    double us = 0;
    if (batches.size() == 1) {
      us = Interpolate(data_.iteration, at[0] + at[2]) +
           options_.num_layers * attention;
    }
    // The card recovers behind each.
    for (const MeasuredBatch& batch : batches) {
      us += batch.layers * attention / CardTimer::kRecovered;
    }
    seconds += 1e-6 * us * kMixedVisits;
  }
  return seconds;
}

// The finest grid that the budget allows.
std::vector<std::vector<double>> Profiler::AffordableMixedAxes() const {
  const auto levels = MixedAxes(options_.limits);
  const double left =
      absl::ToDoubleSeconds(begin_ + options_.budget - options_.now());
  const double allowed =
      std::min(left, kMixedGridShare * absl::ToDoubleSeconds(options_.budget));
  for (const auto& axes : levels) {
    if (EstimateMixedSeconds(axes) <= allowed) return axes;
  }
  return levels.back();
}

absl::Status Profiler::MeasureMixed() {
  StartStage("chunks beside decodes");
  const GridFunction function = FunctionOf(
      [this](absl::Span<const double> at) { return SampleMixed(at); },
      [this](absl::Span<const double> at) {
        return PiecesOf(at[0] + at[2], MixedAt(at));
      });
  data_.mixed.axes = AffordableMixedAxes();
  RETURN_IF_ERROR(MeasureGrid(function, options_.seed, &data_.mixed));
  return Refine(function, {16, 256, 8, 128}, kMixedShare, &data_.mixed);
}

absl::Status Profiler::MeasureSkew() {
  StartStage("decodes of other spreads");
  Rng rng = Rng(options_.seed).Fork("skew");
  std::vector<MeasuredBatch> batches;
  for (const double n : Shares(options_.limits.max_sequences,
                               {1.0 / 32, 0.125, 0.25, 0.5, 0.75, 1})) {
    if (n < 2) continue;
    for (const double share : {0.05, 0.1, 0.25}) {
      const double length = share * options_.limits.max_kv;
      batches.push_back(Decodes(Whole(n), Whole(length)));
      for (const double sigma : {0.25, 0.8, 1.1}) {
        MeasuredBatch batch;
        batch.decode_kv =
            UnevenLengths(rng, Whole(n), length, sigma, options_.limits.max_kv);
        batches.push_back(std::move(batch));
      }
    }
  }
  RETURN_IF_ERROR(MeasureAll(batches));
  const Grid decode = data_.decode.ToGrid();
  for (const MeasuredBatch& batch : batches) {
    RETURN_IF_ERROR(AddSkew(decode, batch));
  }
  return absl::OkStatus();
}

absl::Status Profiler::AddSkew(const Grid& decode, const MeasuredBatch& batch) {
  const DecodeGroup group = batch.shape().decode;
  SkewSample sample;
  sample.sequences = static_cast<double>(group.count);
  sample.mean = static_cast<double>(group.kv_tokens) / sample.sequences;
  sample.longest = static_cast<double>(group.kv_tokens_max);
  const double variance =
      static_cast<double>(group.kv_tokens_squared) / sample.sequences -
      sample.mean * sample.mean;
  sample.variation = std::sqrt(std::max(0.0, variance)) / sample.mean;
  ASSIGN_OR_RETURN(const double linear, DecodeLinearUs(sample.sequences));
  ASSIGN_OR_RETURN(const GridSample measured, Attention(batch, linear));
  sample.time_us = measured.value;
  bool outside = false;
  const double table = decode.At({sample.sequences, sample.mean}, &outside);
  if (table <= 0) return absl::OkStatus();
  sample.deviation = sample.time_us / table - 1;
  data_.skew.push_back(sample);
  return absl::OkStatus();
}

// Least squares, neither part below 0.
void Profiler::FitHost(absl::Span<const ServedBatch> served) {
  double n = 0;
  double x = 0;
  double y = 0;
  double xx = 0;
  double xy = 0;
  for (const ServedBatch& batch : served) {
    const auto sequences = static_cast<double>(batch.shape().num_sequences());
    const double us = batch.time.host.micros();
    n += 1;
    x += sequences;
    y += us;
    xx += sequences * sequences;
    xy += sequences * us;
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
  RETURN_IF_ERROR(MeasureThrottle());
  RETURN_IF_ERROR(MeasureLinear());
  RETURN_IF_ERROR(MeasureLmHead());
  RETURN_IF_ERROR(MeasureDecodeLinear());
  RETURN_IF_ERROR(MeasureDecode());
  RETURN_IF_ERROR(MeasureSkew());
  RETURN_IF_ERROR(MeasurePrefill());
  RETURN_IF_ERROR(MeasureMixed());
  return data_;
}

BatchLimits Profiler::Limits() const {
  BatchLimits limits;
  limits.max_tokens = options_.check_tokens;
  limits.max_context = options_.limits.max_context;
  limits.max_sequences = options_.limits.max_sequences;
  limits.max_kv = options_.limits.max_kv;
  return limits;
}

absl::StatusOr<ProfileData> Profiler::Calibrate(CostModel& recovered) {
  StartStage("whole batches");
  ASSIGN_OR_RETURN(const std::vector<ServedBatch> served,
                   ServeUntilEnough(recovered));
  std::vector<SeriesSample> series;
  const Grid decode = data_.decode.ToGrid();
  for (size_t n = 0; n < served.size(); ++n) {
    const BatchShape shape = served[n].shape();
    const BatchTime& time = served[n].time;
    RETURN_IF_ERROR(
        journal_->Add(absl::StrCat("served ", n, " ", ServedKey(shape)), time));
    SeriesSample& sample = series.emplace_back(SampleOf(shape, time));
    const Prediction predicted = Ask(recovered, shape);
    sample.table_us = predicted.outside_grid ? 0 : predicted.us;
    sample.decode_attention_us = DecodeAttentionUs(decode, shape.decode);
  }
  data_.stages.back().measurements = static_cast<int64_t>(series.size());
  const Calibration calibration =
      data_.throttle.time_constant_us > 0
          ? sim::Calibrate(series, options_.memory_tokens)
          : CalibrateLevels(series);
  data_.throttle = calibration.throttle;
  timer_.set_throttle(data_.throttle);
  data_.levels = {calibration.with_prefill, calibration.decodes_alone};
  FitHost(served);
  return data_;
}

// Keeps what is served for later: looking at it would count as the host's work.
absl::StatusOr<std::vector<Profiler::ServedBatch>> Profiler::ServeUntilEnough(
    CostModel& cost) {
  RETURN_IF_ERROR(timer_.Recover());
  std::vector<ServedBatch> served;
  served.reserve(kMostServed);
  bool stopped = false;
  const absl::Duration left =
      begin_ + kServedShare * options_.budget - options_.now();
  const absl::Duration planned =
      std::max(kShortestServed, kPlannedShare * left);
  RETURN_IF_ERROR(options_.serve(
      cost, planned,
      [&](const BatchShape& shape, const IterationTiming& timing) {
        served.push_back({{shape.prefill.begin(), shape.prefill.end()},
                          shape.decode,
                          {timing.device, timing.host}});
        const double share = UsedShare();
        stopped = options_.progress && !options_.progress(std::min(1.0, share));
        return !stopped && served.size() < kMostServed &&
               (served.size() < kFewestServed || share < kServedShare);
      }));
  if (stopped) return absl::CancelledError("stopped");
  return served;
}

// All layers' attention of these decodes alone.
double Profiler::DecodeAttentionUs(const Grid& decode,
                                   const DecodeGroup& group) const {
  if (group.count == 0) return 0;
  bool outside = false;
  const auto count = static_cast<double>(group.count);
  return options_.num_layers *
         decode.At({count, static_cast<double>(group.kv_tokens) / count},
                   &outside);
}

absl::StatusOr<std::vector<CheckRow>> Profiler::Check(CostModel& model,
                                                      int count) {
  StartStage("check");
  Rng rng = Rng(options_.seed).Fork("check");
  const BatchLimits limits = Limits();
  std::vector<MeasuredBatch> batches;
  for (int i = 0; i < count; ++i) batches.push_back(RandomBatch(rng, limits));
  for (const MeasuredBatch& batch : batches) RETURN_IF_ERROR(Warm(batch));
  RETURN_IF_ERROR(timer_.Recover());
  std::vector<CheckRow> rows;
  for (const MeasuredBatch& batch : batches) {
    const BatchShape shape = batch.shape();
    CheckRow row;
    row.batch = KeyOf(batch);
    const Prediction predicted = Ask(model, shape);
    row.predicted_us = predicted.us;
    row.outside_grid = predicted.outside_grid;
    ASSIGN_OR_RETURN(const BatchTime time,
                     RunNth("check", static_cast<int64_t>(rows.size()), batch));
    row.measured_us = time.device.micros();
    model.Ran(shape, {time.device});
    rows.push_back(row);
  }
  data_.stages.back().measurements = count;
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
  summary.p95_error = Quantile(std::move(errors), 0.95);
  return summary;
}

}  // namespace interleave::sim
