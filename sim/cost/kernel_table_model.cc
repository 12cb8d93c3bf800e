#include "sim/cost/kernel_table_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/sim_time.h"
#include "base/status_macros.h"
#include "sim/cost/batch_shape.h"
#include "sim/cost/gzip.h"
#include "sim/cost/kernel_tables.h"
#include "sim/cost/model_math.h"
#include "sim/cost/rounding.h"

namespace interleave::sim {
namespace {

constexpr double kNanosPerMilli = 1e6;
constexpr double kActivationBytes = 2.0;
// Bytes that pass through memory for each logit: conversion to 32 bits (6), and
// reading it (4); or division by the temperature (8), softmax (12), random
// numbers (4), division by them (12) and reading the result (4).
constexpr double kArgmaxBytes = 10.0;
constexpr double kSampleBytes = 46.0;
// Masking by top k and top p in PyTorch takes 2.35 ms for 128 rows of 131,072
// logits and 1.06 ms for 64 (https://github.com/vllm-project/vllm/pull/40376).
constexpr double kSortNanosPerLogit = 0.14;
// Clocks above the nominal one let a kernel pass the nominal peak a little.
constexpr double kPeakTolerance = 1.1;

// factor x curve, in ns.
struct Part {
  Curve curve;
  double factor = 0;
};

double Sum(const std::vector<Part>& parts, double size, bool* outside) {
  double ns = 0;
  for (const Part& part : parts)
    ns += part.factor * part.curve.At(size, outside);
  return ns;
}

struct Kernels {
  std::vector<Part> by_tokens;
  std::vector<Part> by_sequences;
  // Axes: heads, sequences, tokens.
  Grid context;
  Grid generation;
  double heads = 0;
  // Two all-reduces a layer, in batches of at most captured_tokens and in
  // larger ones; no x where there is one device.
  Part captured_all_reduce;
  Part launched_all_reduce;
  double captured_tokens = 0;
  double hidden = 0;
  double elementwise_per_token = 0;
  double sampling_per_sequence = 0;
  double constant = 0;
  double attention_factor = 0;
  double swapped_block = 0;
};

class KernelTableModel final : public CostModel {
 public:
  KernelTableModel(Kernels kernels, std::string description)
      : k_(std::move(kernels)), description_(std::move(description)) {}

  SimDuration IterationTime(const BatchShape& shape) override {
    bool outside = false;
    double ns =
        WithoutAttention(shape.num_tokens(), shape.num_sequences(), &outside);
    DecodeGroup decode = shape.decode;
    ns += k_.attention_factor * Prefill(shape.prefill, &decode, &outside);
    if (decode.count > 0) {
      ns += k_.attention_factor *
            k_.generation.At({k_.heads, static_cast<double>(decode.count),
                              MeanLength(decode)},
                             &outside);
    }
    ns += k_.swapped_block * static_cast<double>(shape.swapped_out_blocks +
                                                 shape.swapped_in_blocks);
    Count(outside);
    return RoundNanos(ns);
  }

  void DecodeTimes(const DecodeGroup& first,
                   absl::Span<SimDuration> out) override {
    if (k_.generation.has_extended()) {
      // Only At knows which points were measured, but all else stays the same.
      return DecodeTimesBy(first, out, [&](double length, bool* outside) {
        return k_.generation.At(
            {k_.heads, static_cast<double>(first.count), length}, outside);
      });
    }
    bool row_outside = false;
    const Curve row = k_.generation.Slice(
        {k_.heads, static_cast<double>(first.count)}, &row_outside);
    DecodeTimesBy(first, out, [&](double length, bool* outside) {
      *outside |= row_outside;
      return row.At(length, outside);
    });
  }

  CostModelStats stats() const override { return stats_; }
  std::string Description() const override { return description_; }

 private:
  template <typename Lookup>
  void DecodeTimesBy(const DecodeGroup& first, absl::Span<SimDuration> out,
                     Lookup lookup) {
    bool rest_outside = false;
    const double rest =
        WithoutAttention(first.count, first.count, &rest_outside);
    DecodeGroup decode = first;
    for (SimDuration& duration : out) {
      bool outside = rest_outside;
      duration = RoundNanos(rest + k_.attention_factor *
                                       lookup(MeanLength(decode), &outside));
      Count(outside);
      decode.Advance();
    }
  }

  void Count(bool outside) {
    ++stats_.queries;
    if (outside) ++stats_.outside_grid;
  }

  // Cached tokens and the one computed now.
  static double MeanLength(const DecodeGroup& decode) {
    return static_cast<double>(decode.kv_tokens) /
               static_cast<double>(decode.count) +
           1.0;
  }

  double WithoutAttention(int64_t tokens, int64_t sequences,
                          bool* outside) const {
    const auto t = static_cast<double>(tokens);
    double ns = k_.constant + k_.elementwise_per_token * t;
    ns += Sum(k_.by_tokens, t, outside);
    const auto s = static_cast<double>(sequences);
    ns += Sum(k_.by_sequences, s, outside) + k_.sampling_per_sequence * s;
    const Part& all_reduce = t <= k_.captured_tokens ? k_.captured_all_reduce
                                                     : k_.launched_all_reduce;
    if (!all_reduce.curve.x.empty()) {
      ns += all_reduce.factor * all_reduce.curve.At(t * k_.hidden, outside);
    }
    return ns;
  }

  // Milliseconds of one layer; chunks of one token go to *decode.
  double Prefill(absl::Span<const PrefillChunk> chunks, DecodeGroup* decode,
                 bool* outside) const {
    double count = 0;
    double queries = 0;
    double work = 0;
    double whole_work = 0;
    for (const PrefillChunk& chunk : chunks) {
      if (chunk.query_tokens == 1) {
        ++decode->count;
        decode->kv_tokens += chunk.context_tokens;
        continue;
      }
      const double q = chunk.query_tokens;
      const double whole = q + chunk.context_tokens;
      count += 1;
      queries += q;
      work += QueryKeyPairs(q, chunk.context_tokens);
      whole_work += whole * whole * 0.5;
    }
    if (count == 0) return 0;
    const auto at = [&](double length) {
      return k_.context.At({k_.heads, count, length}, outside);
    };
    const double length = std::sqrt(2 * whole_work / count);
    return std::max(at(length) * (work / whole_work), at(queries / count));
  }

  const Kernels k_;
  const std::string description_;
  CostModelStats stats_;
};

struct Tables {
  Grid gemm;
  Grid lm_head;
  Grid context;
  std::string context_path;
  Grid generation;
  Curve captured_all_reduce;
  Curve launched_all_reduce;
};

std::string FormatName(NumberFormat format) {
  return format == FP8 ? "fp8" : "bfloat16";
}

class Composer {
 public:
  Composer(const ModelSpec& model, const DeviceSpec& device,
           const Parallelism& parallelism, const KernelTableOptions& options)
      : m_(model),
        d_(device),
        p_(parallelism),
        o_(options),
        degree_(parallelism.tensor_parallel),
        gemm_format_(options.gemm_format().empty()
                         ? FormatName(model.weight_format())
                         : options.gemm_format()),
        kv_format_(options.kv_format().empty() ? FormatName(model.kv_format())
                                               : options.kv_format()) {}

  absl::StatusOr<std::unique_ptr<CostModel>> Compose() const {
    RETURN_IF_ERROR(Check());
    ASSIGN_OR_RETURN(Tables tables, Read());
    RETURN_IF_ERROR(CheckContextPossible(tables));
    Kernels k;
    AddGemms(tables, &k);
    k.heads = static_cast<double>(m_.num_heads()) / degree_;
    k.attention_factor = m_.num_layers() * kNanosPerMilli;
    if (degree_ > 1) {
      const double count = 2.0 * m_.num_layers() * kNanosPerMilli;
      k.captured_all_reduce = {tables.captured_all_reduce, count};
      k.launched_all_reduce = {tables.launched_all_reduce, count};
      k.captured_tokens = o_.captured_tokens();
    }
    k.hidden = m_.hidden_size();
    AddElementwise(&k);
    AddSampling(&k);
    k.swapped_block =
        1e9 * static_cast<double>(KvBytesPerTokenPerDevice(m_, degree_)) *
        p_.block_size / d_.host_link_bytes_per_s();
    k.context = std::move(tables.context);
    k.generation = std::move(tables.generation);
    return std::make_unique<KernelTableModel>(
        std::move(k),
        absl::StrCat("kernel tables ", o_.system(), " of ", m_.name(),
                     ", GEMM ", gemm_format_, ", KV ", kv_format_, ", on ",
                     degree_, " devices; prefill attention of ",
                     ContextSystem()));
  }

 private:
  std::string ContextSystem() const {
    return o_.context_attention_system().empty()
               ? o_.system()
               : o_.context_attention_system();
  }

  absl::Status Check() const {
    RETURN_IF_ERROR(CheckTensorParallel(m_, degree_));
    if (m_.num_experts() > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("kernel_tables composes dense models only; \"",
                       m_.name(), "\" has experts: take roofline"));
    }
    if (o_.directory().empty()) {
      return absl::InvalidArgumentError(
          "kernel_tables option directory is empty; give the folder with "
          "*_perf.csv.gz files");
    }
    const double efficiency = o_.elementwise_memory_efficiency();
    if (!(efficiency > 0 && efficiency <= 1) ||
        !(o_.elementwise_latency_us() >= 0 &&
          o_.elementwise_latency_us() <= 1e6)) {
      return absl::InvalidArgumentError(
          "kernel_tables option elementwise_memory_efficiency must be above 0 "
          "and at most 1, elementwise_latency_us between 0 and 1e6");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::pair<std::string, std::string>> PathAndText(
      absl::string_view system, absl::string_view kind) const {
    ASSIGN_OR_RETURN(const std::string path,
                     FindKernelTable(o_.directory(), system, kind));
    ASSIGN_OR_RETURN(std::string text, ReadMaybeGzip(path));
    return std::make_pair(path, std::move(text));
  }

  absl::StatusOr<Tables> Read() const {
    Tables tables;
    ASSIGN_OR_RETURN(const auto gemm, PathAndText(o_.system(), "gemm"));
    ASSIGN_OR_RETURN(tables.gemm,
                     ParseGemm(gemm.second, gemm.first, gemm_format_));
    tables.lm_head = tables.gemm;
    if (o_.lm_head_in_bf16() && gemm_format_ != "bfloat16") {
      ASSIGN_OR_RETURN(tables.lm_head,
                       ParseGemm(gemm.second, gemm.first, "bfloat16"));
    }
    const AttentionShape shape = {
        .kv_heads = std::max(1, m_.num_kv_heads() / degree_),
        .head_dim = m_.head_dim(),
        .kv_format = kv_format_};
    ASSIGN_OR_RETURN(const auto context,
                     PathAndText(ContextSystem(), "context_attention"));
    tables.context_path = context.first;
    ASSIGN_OR_RETURN(tables.context, ParseAttentionKernels(
                                         context.second, context.first, shape));
    ASSIGN_OR_RETURN(const auto generation,
                     PathAndText(o_.system(), "generation_attention"));
    ASSIGN_OR_RETURN(
        tables.generation,
        ParseAttentionKernels(generation.second, generation.first, shape));
    if (degree_ > 1) {
      ASSIGN_OR_RETURN(const auto reduce,
                       PathAndText(o_.system(), "custom_allreduce"));
      ASSIGN_OR_RETURN(tables.captured_all_reduce,
                       ParseAllReduce(reduce.second, reduce.first,
                                      o_.all_reduce_backend(), degree_));
      ASSIGN_OR_RETURN(
          tables.launched_all_reduce,
          ParseAllReduce(reduce.second, reduce.first,
                         o_.launched_all_reduce_backend(), degree_));
    }
    return tables;
  }

  // The least time that the device's peak allows, in ms, for whole prompts.
  double ContextFloor(double heads, double sequences, double tokens) const {
    return 1e3 * 2 * sequences * heads * m_.head_dim() * tokens * tokens /
           (d_.bf16_flops_per_s() * kPeakTolerance);
  }

  absl::Status CheckContextPossible(const Tables& tables) const {
    const double heads = static_cast<double>(m_.num_heads()) / degree_;
    for (const double sequences : tables.context.axis(1)) {
      for (const double tokens : tables.context.axis(2)) {
        bool outside = false;
        const double ms =
            tables.context.At({heads, sequences, tokens}, &outside);
        const double floor = ContextFloor(heads, sequences, tokens);
        if (outside || ms >= floor) continue;
        return absl::InvalidArgumentError(absl::StrCat(
            tables.context_path, ": ", sequences, " prompts of ", tokens,
            " tokens with ", heads, " heads take ", ms, " ms, but ", d_.name(),
            " needs ", floor,
            " ms at its peak: the table is broken; set "
            "context_attention_system to one with the same cores (for H200: "
            "\"h100_sxm\")"));
      }
    }
    return absl::OkStatus();
  }

  static Part GemmPart(const Grid& gemm, double n, double k, double count) {
    const double pieces = std::max(1.0, std::ceil(n / gemm.axis(0).back()));
    bool outside = false;
    return {gemm.Slice({n / pieces, k}, &outside),
            pieces * count * kNanosPerMilli};
  }

  void AddGemms(const Tables& tables, Kernels* kernels) const {
    const double layers = m_.num_layers();
    const double hidden = m_.hidden_size();
    const double q =
        static_cast<double>(m_.num_heads()) / degree_ * m_.head_dim();
    const double kv =
        static_cast<double>(std::max(1, m_.num_kv_heads() / degree_)) *
        m_.head_dim();
    const double mlp = static_cast<double>(m_.intermediate_size()) / degree_;
    kernels->by_tokens = {GemmPart(tables.gemm, q + 2 * kv, hidden, layers),
                          GemmPart(tables.gemm, hidden, q, layers),
                          GemmPart(tables.gemm, 2 * mlp, hidden, layers),
                          GemmPart(tables.gemm, hidden, mlp, layers)};
    kernels->by_sequences = {
        GemmPart(tables.lm_head, static_cast<double>(m_.vocab_size()) / degree_,
                 hidden, 1)};
  }

  // As in roofline.h: two norms with the residual, rotary, cache append,
  // activation, norms of queries and keys; once the embedding and the last
  // norm.
  void AddElementwise(Kernels* kernels) const {
    const double layers = m_.num_layers();
    const double hidden = m_.hidden_size();
    const double q =
        static_cast<double>(m_.num_heads()) / degree_ * m_.head_dim();
    const double kv =
        static_cast<double>(std::max(1, m_.num_kv_heads() / degree_)) *
        m_.head_dim();
    const double mlp = static_cast<double>(m_.intermediate_size()) / degree_;
    const double norms = m_.query_key_norm() ? 2 * (q + kv) : 0;
    const double numbers =
        layers * (8 * hidden + 2 * (q + kv) + norms + 4 * kv + 3 * mlp) +
        6 * hidden;
    kernels->elementwise_per_token =
        1e9 * numbers * kActivationBytes /
        (d_.memory_bytes_per_s() * o_.elementwise_memory_efficiency());
    const double kernels_per_layer = m_.query_key_norm() ? 6 : 5;
    kernels->constant =
        (kernels_per_layer * layers + 2) * o_.elementwise_latency_us() * 1e3;
  }

  // The logits of a sequence, gathered from all devices: a copy in 32 bits and
  // what reads it.
  void AddSampling(Kernels* kernels) const {
    const double vocab = m_.vocab_size();
    const bool sort = o_.sampling() == KernelTableOptions::SORT;
    const double bytes = vocab * (sort ? kSampleBytes : kArgmaxBytes);
    kernels->sampling_per_sequence =
        1e9 * bytes /
            (d_.memory_bytes_per_s() * o_.elementwise_memory_efficiency()) +
        (sort ? vocab * kSortNanosPerLogit : 0);
  }

  const ModelSpec& m_;
  const DeviceSpec& d_;
  const Parallelism& p_;
  const KernelTableOptions& o_;
  const int degree_;
  const std::string gemm_format_;
  const std::string kv_format_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CostModel>> CreateKernelTableModel(
    const ModelSpec& model, const DeviceSpec& device,
    const Parallelism& parallelism, const KernelTableOptions& options) {
  return Composer(model, device, parallelism, options).Compose();
}

}  // namespace interleave::sim
