// Profiler: measures what the profile cost model needs of an engine, by timing
// whole iterations.
//
//   throttle     rows of prompts and of decodes as they come: how fast the card
//                is throttled, and how much slower decodes get
//                (sim/cost/throttle.h)
//   iteration    a batch without attention, by tokens: linear layers, norms,
//                the LM head for one sequence, and the gaps between launches;
//                on a recovered card and on a throttled one, which says how
//                much slower batches of so many tokens get
//   lm_head      what the LM head costs beyond that, by sequences
//   decode_iteration  decodes without attention, by sequences: an engine pads
//                them to the next captured graph and replays that
//   attention    an iteration less the same without attention: one chunk by
//                (chunk, context), decodes by (sequences, mean of their cached
//                tokens), and both together by all four
//   skew         decodes of other spreads, held against that table
//   host         the host's share: a constant and so much a sequence
//
// So the sum of the tables is a whole iteration again, launch gaps and all.
//
// Every grid starts coarse and is refined where interpolation misses a probe by
// more than `tolerance` of the iteration.
//
// Decodes have uneven lengths (TypicalLengths): those of one length fill the
// card in whole rounds of tiles, or just miss it, which batches as they come do
// not, and so are 5 to 25% of attention off.
//
// All other times are divided by how much slower the card is while they run, so
// that they are those of a recovered card.  A batch is timed in the state
// that a server under load has for it: large ones in a row, twice each; small
// ones four times, at several moments between prompts that take `compute_share`
// of the time.  Medians count.
//
// At the end, batches like those of a served conversation trace (several
// chunks, decodes of uneven lengths) are measured and held against the tables'
// prediction; nothing is fitted to these.

#ifndef SIM_PROFILING_PROFILER_H_
#define SIM_PROFILING_PROFILER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/random.h"
#include "sim/cost/attention_shares.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/throttle.h"
#include "sim/profiling/batch_timer.h"
#include "sim/profiling/grid_search.h"
#include "sim/profiling/journal.h"
#include "sim/profiling/measured_batch.h"
#include "sim/profiling/paced_timer.h"

namespace interleave::sim {

struct ProfilerOptions {
  int32_t num_layers = 0;
  // The largest sizes of the tables: of a chunk alone and of one beside
  // decodes, of what is cached before it, of decodes.
  int32_t max_chunk = 8192;
  int32_t max_mixed_chunk = 4096;
  int32_t max_context = 8192;
  int32_t max_sequences = 256;
  int32_t max_kv = 8192;
  // Batch sizes of captured graphs, ascending; empty: none.
  std::vector<int32_t> graph_sizes;
  // Tokens of the largest batch that is checked.
  int32_t check_tokens = 2048;
  double tolerance = 0.02;
  // Share of the time in which prompts are computed where small batches are
  // timed; 0: none.
  double compute_share = 0.25;
  // Of the ThrottleTable.
  double memory_tokens = 128;
  // Of the time that `now` tells.  The coarsest grids are measured whatever
  // they take.
  absl::Duration budget = absl::Minutes(5);
  uint64_t seed = 1;
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

  // Measures so many random batches, and asks `model` for each.
  absl::StatusOr<std::vector<CheckRow>> Check(CostModel& model, int count);

 private:
  struct HostSample {
    double sequences;
    double us;
  };

  // The median time of a batch, from the journal if it is there.
  absl::StatusOr<BatchTime> Time(const MeasuredBatch& batch);
  // Measures batches that are not in the journal, some at a time, each at
  // several moments.
  absl::Status MeasureAll(std::vector<MeasuredBatch> batches);
  absl::Status MeasureSome(absl::Span<const MeasuredBatch> batches);
  // Whether a batch tells how much slower those of its tokens get.
  bool TellsSlowdown(const MeasuredBatch& batch) const;
  absl::Status MeasureSlowdown(const MeasuredBatch& batch);
  // How much is added to a batch on a throttled card, as a share, if it takes
  // `us` on a recovered one.
  double SlowdownOf(const MeasuredBatch& batch, double us) const;
  // What a batch that began in `state` and took `us` takes on a recovered card.
  double RecoveredUs(const MeasuredBatch& batch, double us, double state) const;
  // The same, once and for all: from the journal if it is there.
  absl::StatusOr<BatchTime> RunNth(int64_t n, const MeasuredBatch& batch);
  // Microseconds on the device.
  absl::StatusOr<double> DeviceUs(const MeasuredBatch& batch);
  // An iteration without attention, measured where it has not been.
  absl::StatusOr<double> LinearUs(double tokens);
  absl::StatusOr<double> DecodeLinearUs(double sequences);
  absl::StatusOr<double> LmHeadUs(double sequences) const;
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
  // What the samples of some places will ask for.
  MeasuredBatch LinearBatch(double tokens) const;
  MeasuredBatch DecodeLinearBatch(double sequences) const;
  GridFunction LinearFunction();
  GridFunction DecodeFunction();
  GridFunction PrefillFunction();
  GridFunction MixedFunction();
  void FitHost();

  absl::StatusOr<GridSample> Attention(const MeasuredBatch& batch,
                                       double linear_us);
  absl::StatusOr<GridSample> SamplePrefill(absl::Span<const double> at);
  absl::StatusOr<GridSample> SampleDecode(absl::Span<const double> at);
  absl::StatusOr<GridSample> SampleMixed(absl::Span<const double> at);
  std::vector<std::vector<double>> MixedAxes() const;
  double EstimateMixedSeconds(
      const std::vector<std::vector<double>>& axes) const;

  // Refines until the given share of the budget is used.
  absl::Status Refine(const GridFunction& function, std::vector<double> step,
                      double share, SampledGrid* grid);
  std::function<bool(int64_t)> AffordableUntil(double share);
  double UsedShare() const;
  void StartStage(const std::string& name);

  const ProfilerOptions options_;
  PacedTimer timer_;
  Journal* const journal_;
  const absl::Time begin_;
  std::set<std::string> warm_;
  // Once both kinds of attention have been measured.
  std::optional<AttentionShares> shares_;
  // By tokens: how much slower linear layers are on a throttled card.
  std::map<double, double> slowdown_;
  std::vector<HostSample> host_;
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
