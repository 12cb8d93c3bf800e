// Measured kernel times of one transformer layer, as a directory of CSV files
// in the layout that LLMServingSim's profiler writes (one tensor-parallel
// degree; times in microseconds):
//
//   dense.csv         layer,tokens,time_us
//   per_sequence.csv  layer,sequences,time_us
//   attention.csv     prefill_chunk,kv_prefill,n_decode,kv_decode,time_us
//                     one chunk of prefill_chunk query tokens after kv_prefill
//                     cached ones, in one launch with n_decode sequences that
//                     compute one token after kv_decode cached ones; either
//                     part may be 0
//   skew_fit.csv      pc,n_label,skew_rate_label,kv_big_label,kp_label,alpha,
//                     n_samples (optional): what uneven decode lengths cost,
//                     t = t(mean) + alpha (t(longest) - t(mean)); a label is an
//                     upper bound ("n<=8", "sr<=15%", "kvB<=4k", "kp=0") or
//                     above all ("kp>8k")
//   layers.csv        layer,per_layer,per_iteration,batches (optional; ours):
//                     how often each layer runs, and in which batches: "all",
//                     "decodes_alone" or "with_prefill"; see LayerUse
//   host_overhead.csv constant_us,per_sequence_us (optional; ours): one line,
//                     the host's time between iterations
//   throttle.csv      time_constant_us,compute_slowdown,memory_slowdown,
//                     memory_tokens,compute_tokens,memory_state (optional;
//                     ours): one line, a ThrottleTable; the times of the other
//                     files are then those of a recovered card
//   levels.csv        batches,up_to,factor (optional; ours): by what the sum of
//                     the tables is multiplied for whole batches,
//                     "with_prefill" by tokens and "decodes_alone" by
//                     sequences; each line is for sizes above the line's
//                     before, the last also for larger ones
//   linear_choices.csv  which algorithms the linear layers had (optional; ours;
//                     sim/kernel_executor/linear_choices.h): kept as it is
//   meta.yaml         optional; `key: value` lines at its left margin are kept.
//                     model_name and device_name, where given, are the shipped
//                     model and device that the tables hold for
//
// skew.csv (the measurements behind skew_fit.csv) and check.csv are not read.

#ifndef SIM_COST_PROFILE_TABLES_H_
#define SIM_COST_PROFILE_TABLES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sim/cost/cost.pb.h"
#include "sim/cost/grid.h"
#include "sim/cost/host_overhead.h"
#include "sim/cost/level.h"
#include "sim/cost/throttle.h"

namespace interleave::sim {

// By layer; points sorted by tokens (or sequences).
using LayerCurves = std::map<std::string, Curve>;

struct AttentionTables {
  // Axes: chunk, context.
  Grid prefill;
  // Axes: sequences, cached tokens of each.
  Grid decode;
  // Axes: chunk, context, sequences, cached tokens of each.  Empty where no
  // mixed batch was measured.
  Grid mixed;
};

// alpha by five labels.
class SkewTable {
 public:
  struct Row {
    double bounds[5];
    double alpha;
    double samples;
  };
  // chunk is 0 for decode-only batches; skew_rate the share of long sequences,
  // (mean - shortest) / (longest - shortest); context the chunk's.
  struct Query {
    double chunk;
    double sequences;
    double skew_rate;
    double longest;
    double context;
  };

  SkewTable() = default;
  // A combination that no row names takes the mean of the rows of its chunk
  // and number of sequences, else of its chunk, else of all, weighted by
  // samples.
  explicit SkewTable(const std::vector<Row>& rows);

  bool empty() const { return alphas_.empty(); }
  // By the smallest labels that hold the query, the largest where none does.
  double Alpha(const Query& query) const;

 private:
  std::vector<double> axes_[5];
  std::vector<double> alphas_;
};

// 1 where there is no levels.csv.
struct Levels {
  Level with_prefill;
  Level decodes_alone;
};

struct ProfileTables {
  LayerCurves dense;
  LayerCurves per_sequence;
  AttentionTables attention;
  SkewTable skew;
  // Empty where there is no layers.csv.
  std::vector<LayerUse> layers;
  std::optional<HostOverhead> host;
  // Of a card that is never throttled where there is no throttle.csv.
  ThrottleTable throttle;
  Levels levels;
  std::string linear_choices;
  std::map<std::string, std::string> meta;
};

// Errors are InvalidArgument "source:line: what; remedy".
absl::StatusOr<LayerCurves> ParseLayerCurves(absl::string_view text,
                                             absl::string_view source,
                                             absl::string_view size_column);
absl::StatusOr<AttentionTables> ParseAttention(absl::string_view text,
                                               absl::string_view source);
absl::StatusOr<SkewTable> ParseSkewFit(absl::string_view text,
                                       absl::string_view source);
absl::StatusOr<std::vector<LayerUse>> ParseLayerUses(absl::string_view text,
                                                     absl::string_view source);
absl::StatusOr<HostOverhead> ParseHostOverhead(absl::string_view text,
                                               absl::string_view source);
absl::StatusOr<ThrottleTable> ParseThrottle(absl::string_view text,
                                            absl::string_view source);
absl::StatusOr<Levels> ParseLevels(absl::string_view text,
                                   absl::string_view source);
std::map<std::string, std::string> ParseMeta(absl::string_view text);

// Tables from the texts of their files, by name ("dense.csv"); `source` stands
// before the name in messages.  NotFound, naming the file, where one that is
// not optional is missing.
absl::StatusOr<ProfileTables> ParseProfileTables(
    const std::map<std::string, std::string>& files, absl::string_view source);

// NotFound, naming the file, where one that is not optional is missing.
absl::StatusOr<ProfileTables> ReadProfileTables(const std::string& directory);

}  // namespace interleave::sim

#endif  // SIM_COST_PROFILE_TABLES_H_
