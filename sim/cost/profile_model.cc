#include "sim/cost/profile_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/sim_time.h"
#include "base/status_macros.h"
#include "sim/cost/attention_shares.h"
#include "sim/cost/batch_shape.h"
#include "sim/cost/level.h"
#include "sim/cost/model_math.h"
#include "sim/cost/rounding.h"
#include "sim/cost/throttle.h"
#include "sim/cost/throttled_model.h"

namespace interleave::sim {
namespace {

constexpr double kNanosPerMicro = 1e3;
// Sizes up to which sums over layers are kept by size; further up the last
// points' line goes on anyway.
constexpr double kLargestTable = 1 << 20;

// Sum of curves, in ns, tabulated by whole numbers.
class SizeTable {
 public:
  // Adds factor x curve.
  void Add(const Curve& curve, double factor) {
    parts_.push_back({curve, factor});
  }

  // REQUIRES: at least one Add; `padded` ascends (see padded_tokens).
  void Build(absl::Span<const int32_t> padded) {
    double last = kLargestTable;
    for (const Part& part : parts_) last = std::min(last, part.curve.x.back());
    const auto size = static_cast<size_t>(last) + 1;
    nanos_.resize(size);
    for (size_t i = 0; i < size; ++i) {
      bool outside = false;
      const auto pad = std::lower_bound(padded.begin(), padded.end(),
                                        static_cast<int64_t>(i));
      nanos_[i] =
          Exact(pad == padded.end() ? static_cast<double>(i) : *pad, &outside);
    }
  }

  double At(int64_t size, bool* outside) const {
    if (size < static_cast<int64_t>(nanos_.size())) {
      return nanos_[static_cast<size_t>(size)];
    }
    return Exact(static_cast<double>(size), outside);
  }

 private:
  struct Part {
    Curve curve;
    double factor;
  };

  double Exact(double size, bool* outside) const {
    double ns = 0;
    for (const Part& part : parts_) {
      ns += part.factor * part.curve.At(size, outside);
    }
    return ns;
  }

  std::vector<Part> parts_;
  std::vector<double> nanos_;
};

// What layers outside attention cost.
struct DenseTables {
  SizeTable by_tokens;
  SizeTable by_sequences;

  double At(int64_t tokens, int64_t sequences, bool* outside) const {
    return by_tokens.At(tokens, outside) + by_sequences.At(sequences, outside);
  }
};

struct Dense {
  DenseTables decodes_alone;
  DenseTables with_prefill;
};

// A batch as the table knows it.
struct TablePoint {
  // 0: no prefill.
  double chunk = 0;
  double context = 0;
  DecodeGroup decode;
};

double Work(const PrefillChunk& chunk) {
  return QueryKeyPairs(chunk.query_tokens, chunk.context_tokens);
}

// query_overhead_keys from the table; see cost.proto.
double OverheadKeys(const Grid& prefill) {
  const double chunk = prefill.axis(0).back();
  const double context = prefill.axis(1).back();
  bool outside = false;
  const double without = prefill.At({chunk, 0}, &outside);
  const double with = prefill.At({chunk, context}, &outside);
  if (prefill.axis(1)[0] != 0 || context == 0 || with <= without) return 0;
  const double per_key = (with - without) / context;
  return std::max(0.0,
                  (without - prefill.smallest_value()) / per_key - chunk * 0.5);
}

// The sequences' mean, and the table's stand-in for their spread.
struct Lengths {
  double sequences;
  double mean;
  double longest;
  double skew_rate;
};

Lengths LengthsOf(const DecodeGroup& decode) {
  Lengths lengths;
  lengths.sequences = static_cast<double>(decode.count);
  lengths.mean = static_cast<double>(decode.kv_tokens) / lengths.sequences;
  lengths.longest = static_cast<double>(decode.kv_tokens_max);
  const double variance = std::max(
      0.0, static_cast<double>(decode.kv_tokens_squared) / lengths.sequences -
               lengths.mean * lengths.mean);
  const double above = lengths.longest - lengths.mean;
  lengths.skew_rate = above > 0 ? variance / (variance + above * above) : 1.0;
  return lengths;
}

class ProfileModel final : public ThrottledModel {
 public:
  ProfileModel(const ProfileOptions& options, AttentionTables attention,
               SkewTable skew, Dense dense, Levels levels,
               const ThrottleTable& throttle, double layers,
               double swapped_block_ns, std::string description)
      : ThrottledModel(throttle),
        chunk_mapping_(options.chunk_mapping()),
        additive_(options.mixed_rule() == ProfileOptions::ADDITIVE),
        attention_(std::move(attention)),
        overhead_keys_(options.query_overhead_keys() < 0
                           ? OverheadKeys(attention_.prefill)
                           : options.query_overhead_keys()),
        skew_(std::move(skew)),
        dense_(std::move(dense)),
        levels_(std::move(levels)),
        shares_(attention_.prefill, attention_.decode),
        attention_scale_(layers * kNanosPerMicro),
        swapped_block_ns_(swapped_block_ns),
        description_(std::move(description)) {}

  void DecodeTimes(const DecodeGroup& first,
                   absl::Span<SimDuration> out) override {
    if (attention_.decode.has_extended()) {
      return ThrottledModel::DecodeTimes(first, out);
    }
    double state = this->state();
    const int64_t tokens = throttle().OfDecodes(first.count);
    bool row_outside = false;
    const double level = levels_.decodes_alone.At(first.count);
    const double rest =
        level * dense_.decodes_alone.At(first.count, first.count, &row_outside);
    const double scale = level * attention_scale_;
    const Curve row = attention_.decode.Slice(
        {static_cast<double>(first.count)}, &row_outside);
    DecodeGroup decode = first;
    for (SimDuration& duration : out) {
      bool outside = row_outside;
      const double us = WithSkew(decode, 0, 0, [&](double, double length) {
        return row.At(length, &outside);
      });
      duration = RoundNanos(Throttled(rest + scale * us, tokens, state));
      state = throttle().After(tokens, duration, state);
      Count(outside);
      decode.Advance();
    }
  }

  bool NeedsKvTokensMax() const override { return !skew_.empty(); }
  CostModelStats stats() const override { return stats_; }
  std::string Description() const override { return description_; }

 private:
  SimDuration TimeIn(double state, const BatchShape& shape) override {
    bool outside = false;
    double rest = 0;
    const TablePoint point = Map(shape, &rest, &outside);
    const bool decodes_alone = point.chunk == 0;
    const DenseTables& dense =
        decodes_alone ? dense_.decodes_alone : dense_.with_prefill;
    const double level =
        (decodes_alone ? levels_.decodes_alone : levels_.with_prefill)
            .At(shape.num_tokens());
    double ns = Throttled(
        level * dense.At(shape.num_tokens(), shape.num_sequences(), &outside),
        level * attention_scale_ * (Attention(point, &outside) + rest), shape,
        state);
    ns += swapped_block_ns_ * static_cast<double>(shape.swapped_out_blocks +
                                                  shape.swapped_in_blocks);
    Count(outside);
    return RoundNanos(ns);
  }

  // What a batch that begins in a state takes, from what its parts take on a
  // recovered card: its decodes' attention is slowed down as that of decodes
  // alone.
  double Throttled(double dense, double attention, const BatchShape& shape,
                   double state) const {
    const int64_t tokens = throttle().TokensOf(shape);
    if (shape.tokens_beside_prefill() == 0) {
      return Throttled(dense + attention, tokens, state);
    }
    const double mean = throttle().MeanState(
        tokens, (dense + attention) / kNanosPerMicro, state);
    if (mean == 0) return dense + attention;
    const double slowdown = throttle().Slowdown(tokens);
    return dense * (1 + mean * slowdown) +
           attention * (1 + mean * Blend(throttle().Slowdown(0), slowdown,
                                         shares_.OfChunks(shape)));
  }
  // Of decodes alone.
  double Throttled(double ns, int64_t tokens, double state) const {
    const double mean =
        throttle().MeanState(tokens, ns / kNanosPerMicro, state);
    return mean == 0 ? ns : ns * (1 + mean * throttle().Slowdown(0));
  }

  void Count(bool outside) {
    ++stats_.queries;
    if (outside) ++stats_.outside_grid;
  }

  // Microseconds of one layer.
  double Attention(const TablePoint& point, bool* outside) const {
    if (point.chunk == 0) return Decode(point.decode, outside);
    if (point.decode.count == 0) return Prefill(point, outside);
    if (additive_ || attention_.mixed.empty()) {
      return Prefill(point, outside) + Decode(point.decode, outside);
    }
    return Mixed(point, outside);
  }

  double Prefill(const TablePoint& point, bool* outside) const {
    return attention_.prefill.At({point.chunk, point.context}, outside);
  }

  double Decode(const DecodeGroup& decode, bool* outside) const {
    return WithSkew(decode, 0, 0, [&](double sequences, double length) {
      return attention_.decode.At({sequences, length}, outside);
    });
  }

  double Mixed(const TablePoint& p, bool* outside) const {
    return WithSkew(p.decode, p.chunk, p.context,
                    [&](double sequences, double length) {
                      return attention_.mixed.At(
                          {p.chunk, p.context, sequences, length}, outside);
                    });
  }

  template <typename Lookup>
  double WithSkew(const DecodeGroup& decode, double chunk, double context,
                  Lookup lookup) const {
    if (skew_.empty()) {
      const auto n = static_cast<double>(decode.count);
      return lookup(n, static_cast<double>(decode.kv_tokens) / n);
    }
    const Lengths lengths = LengthsOf(decode);
    const double at_mean = lookup(lengths.sequences, lengths.mean);
    if (decode.count < 2 || lengths.longest <= lengths.mean) return at_mean;
    const double alpha =
        skew_.Alpha({chunk, lengths.sequences, lengths.skew_rate,
                     lengths.longest, context});
    const double at_longest = lookup(lengths.sequences, lengths.longest);
    return std::max(0.0, Blend(at_mean, at_longest, alpha));
  }

  // *rest: microseconds of chunks that the point leaves out.
  TablePoint Map(const BatchShape& shape, double* rest, bool* outside) const {
    TablePoint point;
    point.decode = shape.decode;
    const PrefillChunk* only = nullptr;
    int64_t chunks = 0;
    for (const PrefillChunk& chunk : shape.prefill) {
      if (chunk.query_tokens == 1) {
        AddDecode(chunk.context_tokens, &point.decode);
      } else {
        only = &chunk;
        ++chunks;
      }
    }
    if (chunks == 1) {
      point.chunk = only->query_tokens;
      point.context = only->context_tokens;
    } else if (chunks > 1) {
      MapChunks(shape.prefill, chunks, &point, rest, outside);
    }
    return point;
  }

  static void AddDecode(int64_t length, DecodeGroup* decode) {
    ++decode->count;
    decode->kv_tokens += length;
    decode->kv_tokens_squared += length * length;
    decode->kv_tokens_max = std::max(decode->kv_tokens_max, length);
  }

  void MapChunks(absl::Span<const PrefillChunk> chunks, int64_t count,
                 TablePoint* point, double* rest, bool* outside) const {
    double queries = 0;
    double contexts = 0;
    double weighted = 0;
    double work = 0;
    const PrefillChunk* largest = nullptr;
    for (const PrefillChunk& chunk : chunks) {
      if (chunk.query_tokens == 1) continue;
      queries += chunk.query_tokens;
      contexts += chunk.context_tokens;
      weighted +=
          static_cast<double>(chunk.query_tokens) * chunk.context_tokens;
      work += Work(chunk);
      if (largest == nullptr || Work(chunk) > Work(*largest)) largest = &chunk;
    }
    point->chunk = queries;
    switch (chunk_mapping_) {
      case ProfileOptions::EQUAL_WORK:
        point->context = work / queries - queries * 0.5;
        if (point->context < 0) {
          // q^2 / 2 + overhead q = work + overhead Q, solved for q.
          work += overhead_keys_ * queries;
          point->context = 0;
          point->chunk = std::sqrt(overhead_keys_ * overhead_keys_ + 2 * work) -
                         overhead_keys_;
        }
        return;
      case ProfileOptions::WEIGHTED_CONTEXT:
        point->context = weighted / queries;
        return;
      case ProfileOptions::MEAN_CONTEXT:
        point->context = contexts / static_cast<double>(count);
        return;
      case ProfileOptions::TOTAL_CONTEXT:
        point->context = contexts;
        return;
      case ProfileOptions::LARGEST_PLUS_REST:
        point->chunk = largest->query_tokens;
        point->context = largest->context_tokens;
        *rest = Others(chunks, largest, outside);
        return;
    }
  }

  double Others(absl::Span<const PrefillChunk> chunks,
                const PrefillChunk* largest, bool* outside) const {
    double us = 0;
    for (const PrefillChunk& chunk : chunks) {
      if (&chunk == largest || chunk.query_tokens == 1) continue;
      const double alone =
          attention_.prefill.At({static_cast<double>(chunk.query_tokens),
                                 static_cast<double>(chunk.context_tokens)},
                                outside);
      us += std::max(0.0, alone - attention_.prefill.smallest_value());
    }
    return us;
  }

  const ProfileOptions::ChunkMapping chunk_mapping_;
  const bool additive_;
  const AttentionTables attention_;
  const double overhead_keys_;
  const SkewTable skew_;
  const Dense dense_;
  const Levels levels_;
  const AttentionShares shares_;
  const double attention_scale_;
  const double swapped_block_ns_;
  const std::string description_;
  CostModelStats stats_;
};

LayerUse Use(const char* layer, double per_layer, double per_iteration) {
  LayerUse use;
  use.set_layer(layer);
  use.set_per_layer(per_layer);
  use.set_per_iteration(per_iteration);
  return use;
}

std::vector<LayerUse> UsesOf(const ProfileTables& tables,
                             const ProfileOptions& options) {
  if (!options.layers().empty()) {
    return {options.layers().begin(), options.layers().end()};
  }
  if (!tables.layers.empty()) return tables.layers;
  return {Use("layernorm", 2, 0),       Use("qkv_proj", 1, 0),
          Use("rotary_emb", 1, 0),      Use("o_proj", 1, 0),
          Use("gate_up_proj", 1, 0),    Use("act_fn", 1, 0),
          Use("down_proj", 1, 0),       Use("embedding", 0, 1),
          Use("final_layernorm", 0, 1), Use("lm_head", 0, 1),
          Use("sampler", 0, 1)};
}

std::string LayerNames(const ProfileTables& tables) {
  std::vector<std::string> names;
  for (const auto& entry : tables.dense) names.push_back(entry.first);
  for (const auto& entry : tables.per_sequence) names.push_back(entry.first);
  return absl::StrJoin(names, ", ");
}

// Adds the layers that run in `batches`, LayerUse::ALL apart.
absl::StatusOr<DenseTables> SumLayers(const ProfileTables& tables,
                                      const ProfileOptions& options,
                                      double layers,
                                      LayerUse::Batches batches) {
  DenseTables sums;
  // A batch costs at least nothing by either size.
  sums.by_tokens.Add({{1, kLargestTable}, {0, 0}}, 0);
  sums.by_sequences.Add({{1, kLargestTable}, {0, 0}}, 0);
  for (const LayerUse& use : UsesOf(tables, options)) {
    if (use.batches() != LayerUse::ALL && use.batches() != batches) continue;
    const double factor =
        (use.per_layer() * layers + use.per_iteration()) * kNanosPerMicro;
    if (!(factor >= 0 && factor <= 1e9)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "layer \"", use.layer(), "\" runs ", use.per_layer(),
          " times a layer and ", use.per_iteration(),
          " times an iteration; neither may be negative or above 10^4"));
    }
    const auto dense = tables.dense.find(use.layer());
    const auto per_sequence = tables.per_sequence.find(use.layer());
    if (dense != tables.dense.end()) {
      sums.by_tokens.Add(dense->second, factor);
    } else if (per_sequence != tables.per_sequence.end()) {
      sums.by_sequences.Add(per_sequence->second, factor);
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          "the profile has no layer \"", use.layer(),
          "\"; it has: ", LayerNames(tables),
          "; name them with how often each runs in profile.layers"));
    }
  }
  const std::vector<int32_t> padded(options.padded_tokens().begin(),
                                    options.padded_tokens().end());
  if (!std::is_sorted(padded.begin(), padded.end())) {
    return absl::InvalidArgumentError(
        "profile option padded_tokens must ascend");
  }
  sums.by_tokens.Build(padded);
  sums.by_sequences.Build({});
  return sums;
}

// The tables may say which shipped model and device they hold for.
absl::Status CheckNames(const ProfileTables& tables, const ModelSpec& model,
                        const DeviceSpec& device) {
  const std::pair<const char*, std::string> names[] = {
      {"model_name", model.name()}, {"device_name", device.name()}};
  for (const auto& [key, name] : names) {
    const auto found = tables.meta.find(key);
    if (found == tables.meta.end() || found->second == name) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the profile holds for ", key, " ", found->second, ", and the run has ",
        name, "; give a profile of the run's model and device, or none"));
  }
  return absl::OkStatus();
}

std::string Describe(const ProfileTables& tables, const ModelSpec& model,
                     int layers, const ProfileOptions& options) {
  const auto meta = [&](const char* key) {
    const auto found = tables.meta.find(key);
    return found == tables.meta.end() ? std::string("unnamed") : found->second;
  };
  return absl::StrCat(
      "profile of ", meta("model"), " on ", meta("gpu"), " (",
      options.has_name() ? options.name() : options.directory(), ") x ", layers,
      " layers of ", model.name(), "; several chunks: ",
      ProfileOptions::ChunkMapping_Name(options.chunk_mapping()),
      "; mixed batches: ",
      tables.attention.mixed.empty()
          ? "ADDITIVE, none were measured"
          : ProfileOptions::MixedRule_Name(options.mixed_rule()),
      "; uneven lengths: ", tables.skew.empty() ? "MEAN_ONLY" : "FITTED_ALPHA",
      "; throttling: ",
      tables.throttle.time_constant_us == 0 ? "RECOVERED" : "FOLLOWED");
}

}  // namespace

absl::StatusOr<std::unique_ptr<CostModel>> CreateProfileModel(
    const ModelSpec& model, const DeviceSpec& device,
    const Parallelism& parallelism, const ProfileOptions& options,
    ProfileTables tables) {
  if (parallelism.tensor_parallel != 1) {
    return absl::InvalidArgumentError(
        "a profile holds the times of one tensor-parallel degree; set "
        "tensor_parallel to 1 and give the directory measured at that degree");
  }
  if (options.num_layers() < 0 || options.num_layers() > 10'000) {
    return absl::InvalidArgumentError(
        absl::StrCat("profile option num_layers is ", options.num_layers(),
                     "; it must be between 0 (the model's) and 10000"));
  }
  const int layers =
      options.num_layers() > 0 ? options.num_layers() : model.num_layers();
  if (options.skew_rule() == ProfileOptions::MEAN_ONLY) {
    tables.skew = SkewTable();
  }
  if (options.throttle_rule() == ProfileOptions::RECOVERED) {
    tables.throttle = ThrottleTable();
  }
  RETURN_IF_ERROR(CheckNames(tables, model, device));
  Dense dense;
  ASSIGN_OR_RETURN(dense.decodes_alone,
                   SumLayers(tables, options, layers, LayerUse::DECODES_ALONE));
  ASSIGN_OR_RETURN(dense.with_prefill,
                   SumLayers(tables, options, layers, LayerUse::WITH_PREFILL));
  const double swapped_block_ns =
      1e9 * static_cast<double>(KvBytesPerToken(model)) *
      parallelism.block_size / device.host_link_bytes_per_s();
  std::string description = Describe(tables, model, layers, options);
  return std::make_unique<ProfileModel>(
      options, std::move(tables.attention), std::move(tables.skew),
      std::move(dense), std::move(tables.levels), tables.throttle, layers,
      swapped_block_ns, std::move(description));
}

}  // namespace interleave::sim
