// Profiler: measures what the profile cost model needs of an engine, by timing
// whole iterations.
//
//   throttle     rows of prompts and of decodes as they come: how fast the card
//                is throttled, and how much slower batches of so many tokens
//                get (sim/cost/throttle.h)
//   iteration    a batch without attention, by tokens: linear layers, norms,
//                the LM head for one sequence, and the gaps between launches
//   lm_head      what the LM head costs beyond that, by sequences
//   decode_iteration  decodes without attention, by sequences: an engine pads
//                them to the next captured graph and replays that
//   attention    an iteration less the same without attention, or attention
//                alone: one chunk by (chunk, context), decodes by (sequences,
//                mean of their cached tokens), and both together by all four
//   skew         decodes of other spreads, held against that table
//   host         the host's share: a constant and so much a sequence
//
// So the sum of the tables is a whole iteration again, launch gaps and all.
//
// Every grid starts coarse and is refined where interpolation misses a probe by
// more than `tolerance` of the iteration.
//
// Decodes have uneven lengths (TypicalLengths), others each time: those of one
// length fill the card in whole rounds of tiles, or just miss it, which batches
// as they come do not, and so are 5 to 25% of attention off, and one draw of
// uneven ones up to 10%.
//
// A row of large batches throttles the card, and how far it is throttled varies
// from one moment to the next by several percent. So the tables are those of a
// recovered card. Of a batch that would throttle it, the linear layers and
// attention are measured apart, each by a few layers, which are over before,
// and the others are taken to be like them; after it the card recovers by
// decodes. Every batch is timed several times, at moments some 100 ms apart and
// behind another batch each time (decodes alone behind themselves, as in an
// engine), and the median counts.
//
// What comes of pieces is then held against whole batches, a minute's worth of
// an engine at work (serve.h): how much slower a throttled card is, by what the
// tables are to be multiplied, size by size (calibration.h), and what the host
// takes.
//
// At the end, whole batches like those of a served conversation trace (several
// chunks, decodes of uneven lengths) run one after the other, and are held
// against the prediction of a cost model that follows the card's throttling;
// nothing is fitted to these.

#ifndef SIM_PROFILING_PROFILER_H_
#define SIM_PROFILING_PROFILER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/random.h"
#include "sim/cost/batch_shape.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/grid.h"
#include "sim/cost/profile_tables.h"
#include "sim/cost/throttle.h"
#include "sim/profiling/batch_timer.h"
#include "sim/profiling/calibration.h"
#include "sim/profiling/card_timer.h"
#include "sim/profiling/grid_axes.h"
#include "sim/profiling/grid_search.h"
#include "sim/profiling/journal.h"
#include "sim/profiling/measured_batch.h"
#include "sim/profiling/pieces.h"
#include "sim/profiling/random_batches.h"
#include "sim/profiling/serve.h"

namespace interleave::sim {

struct ProfilerOptions {
  int32_t num_layers = 0;
  GridLimits limits;
  // Batch sizes of captured graphs, ascending; empty: none.
  std::vector<int32_t> graph_sizes;
  // Tokens of the largest batch that is checked.
  int32_t check_tokens = 2048;
  double tolerance = 0.02;
  // Of the ThrottleTable.
  double memory_tokens = 128;
  // Of the time that `now` tells.  The coarsest grids are measured whatever
  // they take.
  absl::Duration budget = absl::Minutes(5);
  uint64_t seed = 1;
  // Has the engine at work, for about so long, until it is told that it is
  // enough (serve.h); the model never throttles.
  std::function<absl::Status(CostModel&, absl::Duration, const OnServed&)>
      serve;
  std::function<absl::Time()> now = &absl::Now;
  // Told how much of the budget is used, in [0, 1], after each measurement;
  // Cancelled where it answers false.
  std::function<bool(double)> progress;
};

// Decodes of some spread, and how far from the table.
struct SkewSample {
  double sequences = 0;
  double mean = 0;
  double longest = 0;
  // Standard deviation over mean.
  double variation = 0;
  double time_us = 0;
  // (time - table) / table.
  double deviation = 0;
};

struct StageReport {
  std::string name;
  int64_t measurements = 0;
  RefineResult refined;
};

// Times in microseconds; of attention, a layer.
struct ProfileData {
  ThrottleTable throttle;
  Levels levels;
  std::map<double, double> iteration;
  std::map<double, double> decode_iteration;
  std::map<double, double> lm_head;
  SampledGrid prefill;
  SampledGrid decode;
  SampledGrid mixed;
  std::vector<SkewSample> skew;
  double host_constant_us = 0;
  double host_per_sequence_us = 0;
  std::vector<StageReport> stages;
};

struct CheckRow {
  std::string batch;
  double measured_us = 0;
  double predicted_us = 0;
  bool outside_grid = false;
};

class Profiler {
 public:
  // All must outlive the profiler.
  Profiler(ProfilerOptions options, BatchTimer* timer, Journal* journal);

  absl::StatusOr<ProfileData> Measure();

  // Has whole batches served, asks `recovered`, which is of the tables and
  // never throttled, for each, and returns the tables as they are after
  // Calibrate (calibration.h).  What is served is served anew where a profile
  // is resumed.
  absl::StatusOr<ProfileData> Calibrate(CostModel& recovered);

  // Measures so many random batches, and asks `model` for each.
  absl::StatusOr<std::vector<CheckRow>> Check(CostModel& model, int count);

 private:
  struct ServedBatch {
    std::vector<PrefillChunk> chunks;
    DecodeGroup decode;
    BatchTime time;

    BatchShape shape() const { return ShapeOf(chunks, decode); }
  };

  // Measures batches that are not in the journal, some at a time, each at
  // several moments.
  absl::Status MeasureAll(std::vector<MeasuredBatch> batches);
  absl::Status MeasureSome(absl::Span<const MeasuredBatch> batches);
  absl::Status Warm(const MeasuredBatch& batch);
  // What a batch that began in `state` and took `us` takes on a recovered card.
  double RecoveredUs(const MeasuredBatch& batch, double us, double state) const;
  // The n-th of a series, as it comes; from the journal if it is there.
  absl::StatusOr<BatchTime> RunNth(const char* series, int64_t n,
                                   const MeasuredBatch& batch);
  // The median of a batch, in microseconds on the device; from the journal if
  // it is there.
  absl::StatusOr<double> DeviceUs(const MeasuredBatch& batch);
  // An iteration without attention, measured where it has not been.
  absl::StatusOr<double> LinearUs(double tokens);
  absl::StatusOr<double> DecodeLinearUs(double sequences);
  double LmHeadUs(double sequences) const;
  double DecodeAttentionUs(const Grid& decode, const DecodeGroup& group) const;
  absl::StatusOr<std::vector<ServedBatch>> ServeUntilEnough(CostModel& cost);
  int32_t GraphSize(double sequences) const;

  absl::Status MeasureThrottle();
  absl::Status MeasureLinear();
  absl::Status MeasureLmHead();
  absl::Status MeasureDecodeLinear();
  absl::Status MeasureDecode();
  absl::Status MeasurePrefill();
  absl::Status MeasureMixed();
  absl::Status MeasureSkew();
  absl::Status AddSkew(const Grid& decode, const MeasuredBatch& batch);
  MeasuredBatch DecodeLinearBatch(double sequences) const;
  // Of a batch with prompts, of so many tokens in all.
  std::vector<MeasuredBatch> PiecesOf(double tokens, MeasuredBatch batch) const;
  // What a place's sample is, and which batches it asks for.
  using BatchesAt =
      std::function<std::vector<MeasuredBatch>(absl::Span<const double>)>;
  GridFunction FunctionOf(SampleFunction sample, BatchesAt batches_at);
  // What the host takes between served batches.
  void FitHost(absl::Span<const ServedBatch> served);
  BatchLimits Limits() const;

  absl::StatusOr<GridSample> Attention(const MeasuredBatch& batch,
                                       double rest_us);
  absl::StatusOr<GridSample> SamplePrefill(absl::Span<const double> at);
  absl::StatusOr<GridSample> SampleDecode(absl::Span<const double> at);
  absl::StatusOr<GridSample> SampleMixed(absl::Span<const double> at);
  std::vector<std::vector<double>> AffordableMixedAxes() const;
  double EstimateMixedSeconds(
      const std::vector<std::vector<double>>& axes) const;

  // Refines until the given share of the budget is used.
  absl::Status Refine(const GridFunction& function, std::vector<double> step,
                      double share, SampledGrid* grid);
  std::function<bool(int64_t)> AffordableUntil(double share);
  double UsedShare() const;
  void StartStage(const std::string& name);

  const ProfilerOptions options_;
  const PieceOptions pieces_;
  CardTimer timer_;
  Journal* const journal_;
  Rng order_rng_;
  LayerFit layer_fit_;
  const absl::Time begin_;
  std::set<std::string> warm_;
  int64_t stage_measurements_ = 0;
  absl::Time stage_begin_;
  ProfileData data_;
};

// Mean and 95th percentile of |predicted - measured| / measured.
struct CheckSummary {
  double mean_error = 0;
  double p95_error = 0;
  // Mean of (predicted - measured) / measured.
  double bias = 0;
};
CheckSummary Summarize(absl::Span<const CheckRow> rows);

}  // namespace interleave::sim

#endif  // SIM_PROFILING_PROFILER_H_
