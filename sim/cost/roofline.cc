#include "sim/cost/roofline.h"

#include <algorithm>
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
#include "sim/cost/model_math.h"
#include "sim/cost/rounding.h"
#include "sim/cost/specs.h"

namespace interleave::sim {
namespace {

// Bytes of an activation number: 16 bits whatever the weights are.
constexpr double kActivationBytes = 2.0;
constexpr double kNanos = 1e9;

// Linear layers of one shape over all transformer layers, in ns.
struct Linear {
  double flops_per_row = 0;
  double weights = 0;
  double bytes_per_row = 0;

  double Time(double rows) const {
    return std::max(flops_per_row * rows, weights + bytes_per_row * rows);
  }
};

// The same where each row takes some of many experts.
struct Experts {
  Linear all;
  // touched[T]: expected share of the experts that T tokens use; its last
  // element holds for more.
  std::vector<double> touched;

  double Time(int64_t rows) const {
    const size_t index =
        std::min(static_cast<size_t>(rows), touched.size() - 1);
    const auto r = static_cast<double>(rows);
    return std::max(all.flops_per_row * r,
                    all.weights * touched[index] + all.bytes_per_row * r);
  }
};

// Everything in ns, for one of the devices that share the model.
struct Coefficients {
  std::vector<Linear> linear;
  std::vector<Experts> experts;
  Linear lm_head;
  // Elementwise kernels and all-reduces by token; latencies and constants.
  double per_token = 0;
  double constant = 0;
  // Attention: FLOPs a (query, key) pair; K and V of a cached token; Q and
  // output of a query.
  double pair_flops = 0;
  double kv_bytes = 0;
  double query_bytes = 0;
  double swapped_block = 0;
};

double TouchedShare(int num_experts, double* untouched, int per_token) {
  *untouched *= 1.0 - static_cast<double>(per_token) / num_experts;
  return 1.0 - *untouched;
}

std::vector<double> TouchedShares(int num_experts, int per_token) {
  // Where all but a thousandth of an expert is touched the rest is noise.
  std::vector<double> shares = {0.0};
  double untouched = 1.0;
  do {
    shares.push_back(TouchedShare(num_experts, &untouched, per_token));
  } while (untouched * num_experts > 1e-3);
  shares.push_back(1.0);
  return shares;
}

class Coefficient {
 public:
  Coefficient(const ModelSpec& m, const DeviceSpec& d, const Parallelism& p,
              const RooflineOptions& o)
      : m_(m), d_(d), o_(o), degree_(p.tensor_parallel), p_(p) {}

  Coefficients Compute() const {
    const double layers = m_.num_layers();
    const double hidden = m_.hidden_size();
    const double q = Width(m_.num_heads()) / degree_;
    const double kv = Width(std::max(1, m_.num_kv_heads() / degree_));
    const double mlp = static_cast<double>(m_.intermediate_size()) / degree_;
    const int weight_bytes =
        static_cast<int>(BytesPerNumber(m_.weight_format()));
    Coefficients c;
    c.linear.push_back(Layers(layers, hidden, q + 2 * kv, weight_bytes));
    c.linear.push_back(Layers(layers, q, hidden, weight_bytes));
    const Linear gate_up = Layers(layers, hidden, 2 * mlp, weight_bytes);
    const Linear down = Layers(layers, mlp, hidden, weight_bytes);
    if (m_.num_experts() == 0) {
      c.linear.push_back(gate_up);
      c.linear.push_back(down);
    } else {
      c.experts.push_back(ExpertsOf(gate_up));
      c.experts.push_back(ExpertsOf(down));
    }
    c.lm_head =
        Layers(1, hidden, m_.vocab_size() / static_cast<double>(degree_),
               static_cast<int>(kActivationBytes));
    c.per_token = ElementwisePerToken(layers, hidden, q, kv, mlp);
    c.constant = o_.constant_us() * 1e3;
    AddAllReduces(layers, hidden, &c);
    AddAttention(layers, q, kv, &c);
    c.swapped_block =
        kNanos * static_cast<double>(KvBytesPerTokenPerDevice(m_, degree_)) *
        p_.block_size / (d_.host_link_bytes_per_s() * o_.link_efficiency());
    return c;
  }

 private:
  double Width(int heads) const {
    return static_cast<double>(heads) * m_.head_dim();
  }

  Linear Layers(double count, double k, double n, int weight_bytes) const {
    const double peak =
        weight_bytes == 1 ? d_.fp8_flops_per_s() : d_.bf16_flops_per_s();
    const double flops = peak * o_.gemm_compute_efficiency();
    const double bandwidth =
        d_.memory_bytes_per_s() * o_.gemm_memory_efficiency();
    Linear linear;
    linear.flops_per_row = kNanos * count * 2 * k * n / flops;
    linear.weights = kNanos * count * k * n * weight_bytes / bandwidth;
    linear.bytes_per_row =
        kNanos * count * (k + n) * kActivationBytes / bandwidth;
    return linear;
  }

  Experts ExpertsOf(const Linear& one) const {
    Experts experts;
    experts.all = one;
    experts.all.weights *= m_.num_experts();
    experts.all.flops_per_row *= m_.experts_per_token();
    experts.all.bytes_per_row *= m_.experts_per_token();
    experts.touched = TouchedShares(m_.num_experts(), m_.experts_per_token());
    return experts;
  }

  // Two norms that add the residual (read and write both), rotary in place,
  // cache append, activation (read gate and up, write their product); once the
  // embedding and the last norm.
  double ElementwisePerToken(double layers, double hidden, double q, double kv,
                             double mlp) const {
    const double experts = std::max(1, m_.experts_per_token());
    const double numbers =
        layers * (8 * hidden + 2 * (q + kv) + 4 * kv + 3 * mlp * experts) +
        6 * hidden;
    return kNanos * numbers * kActivationBytes /
           (d_.memory_bytes_per_s() * o_.elementwise_memory_efficiency());
  }

  void AddAllReduces(double layers, double hidden, Coefficients* c) const {
    if (degree_ == 1) return;
    const double share = 2.0 * (degree_ - 1) / degree_;
    c->per_token += kNanos * 2 * layers * share * hidden * kActivationBytes /
                    (d_.interconnect_bytes_per_s() * o_.link_efficiency());
    c->constant += 2 * layers * d_.all_reduce_latency_us() * 1e3;
  }

  void AddAttention(double layers, double q, double kv, Coefficients* c) const {
    const double bandwidth =
        d_.memory_bytes_per_s() * o_.attention_memory_efficiency();
    c->pair_flops = kNanos * layers * 4 * q /
                    (d_.bf16_flops_per_s() * o_.attention_compute_efficiency());
    c->kv_bytes = kNanos * layers * 2 * kv *
                  static_cast<double>(BytesPerNumber(m_.kv_format())) /
                  bandwidth;
    c->query_bytes = kNanos * layers * 2 * q * kActivationBytes / bandwidth;
  }

  const ModelSpec& m_;
  const DeviceSpec& d_;
  const RooflineOptions& o_;
  const int degree_;
  const Parallelism& p_;
};

class Roofline final : public CostModel {
 public:
  Roofline(Coefficients coefficients, bool overlapped, std::string description)
      : c_(std::move(coefficients)),
        overlapped_(overlapped),
        description_(std::move(description)) {}

  SimDuration IterationTime(const BatchShape& shape) override {
    ++queries_;
    double ns = WithoutAttention(shape.num_tokens(), shape.num_sequences());
    ns += overlapped_ ? OverlappedAttention(shape) : SerialAttention(shape);
    ns += c_.swapped_block * static_cast<double>(shape.swapped_out_blocks +
                                                 shape.swapped_in_blocks);
    return RoundNanos(ns);
  }

  void DecodeTimes(const DecodeGroup& first,
                   absl::Span<SimDuration> out) override {
    queries_ += static_cast<int64_t>(out.size());
    const double rest = WithoutAttention(first.count, first.count);
    const double query_bytes = QueryBytes(first.count);
    const double pair_flops = c_.pair_flops;
    const double kv_bytes = c_.kv_bytes;
    int64_t keys = first.kv_tokens + first.count;
    for (SimDuration& duration : out) {
      const auto k = static_cast<double>(keys);
      duration = RoundNanos(
          rest + std::max(pair_flops * k, kv_bytes * k + query_bytes));
      keys += first.count;
    }
  }

  CostModelStats stats() const override { return {.queries = queries_}; }

  std::string Description() const override { return description_; }

 private:
  double QueryBytes(int64_t queries) const {
    return c_.query_bytes * static_cast<double>(queries);
  }

  double WithoutAttention(int64_t tokens, int64_t sequences) const {
    const auto t = static_cast<double>(tokens);
    double ns = c_.constant + c_.per_token * t;
    for (const Linear& linear : c_.linear) ns += linear.Time(t);
    for (const Experts& experts : c_.experts) ns += experts.Time(tokens);
    return ns + c_.lm_head.Time(static_cast<double>(sequences));
  }

  // Pairs of a query and a key at or before it.
  static double Pairs(const PrefillChunk& chunk) {
    const double q = chunk.query_tokens;
    return q * chunk.context_tokens + q * (q + 1) * 0.5;
  }

  double ChunkBytes(const PrefillChunk& chunk) const {
    return c_.kv_bytes * (static_cast<double>(chunk.query_tokens) +
                          chunk.context_tokens) +
           c_.query_bytes * chunk.query_tokens;
  }

  double SerialAttention(const BatchShape& shape) const {
    double ns = 0;
    for (const PrefillChunk& chunk : shape.prefill) {
      ns += std::max(c_.pair_flops * Pairs(chunk), ChunkBytes(chunk));
    }
    const auto keys =
        static_cast<double>(shape.decode.kv_tokens + shape.decode.count);
    return ns + std::max(c_.pair_flops * keys,
                         c_.kv_bytes * keys + QueryBytes(shape.decode.count));
  }

  double OverlappedAttention(const BatchShape& shape) const {
    const auto keys =
        static_cast<double>(shape.decode.kv_tokens + shape.decode.count);
    double flops = c_.pair_flops * keys;
    double bytes = c_.kv_bytes * keys + QueryBytes(shape.decode.count);
    for (const PrefillChunk& chunk : shape.prefill) {
      flops += c_.pair_flops * Pairs(chunk);
      bytes += ChunkBytes(chunk);
    }
    return std::max(flops, bytes);
  }

  const Coefficients c_;
  const bool overlapped_;
  const std::string description_;
  int64_t queries_ = 0;
};

absl::Status CheckOptions(const RooflineOptions& o) {
  const std::pair<const char*, double> efficiencies[] = {
      {"gemm_compute_efficiency", o.gemm_compute_efficiency()},
      {"gemm_memory_efficiency", o.gemm_memory_efficiency()},
      {"attention_compute_efficiency", o.attention_compute_efficiency()},
      {"attention_memory_efficiency", o.attention_memory_efficiency()},
      {"elementwise_memory_efficiency", o.elementwise_memory_efficiency()},
      {"link_efficiency", o.link_efficiency()},
  };
  for (const auto& [name, value] : efficiencies) {
    if (value > 0 && value <= 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("roofline option ", name, " is ", value,
                     "; it must be above 0 and at most 1"));
  }
  if (!(o.constant_us() >= 0 && o.constant_us() <= 1e9)) {
    return absl::InvalidArgumentError(
        absl::StrCat("roofline option constant_us is ", o.constant_us(),
                     "; it must be between 0 and 1e9"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CostModel>> CreateRoofline(
    const ModelSpec& model, const DeviceSpec& device,
    const Parallelism& parallelism, const RooflineOptions& options) {
  RETURN_IF_ERROR(ValidateModel(model));
  RETURN_IF_ERROR(ValidateDevice(device));
  RETURN_IF_ERROR(CheckTensorParallel(model, parallelism.tensor_parallel));
  RETURN_IF_ERROR(CheckOptions(options));
  if (parallelism.block_size < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "block_size is ", parallelism.block_size, "; it must be at least 1"));
  }
  if (model.weight_format() == FP8 && device.fp8_flops_per_s() <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model \"", model.name(), "\" has FP8 weights, device \"",
                     device.name(), "\" no FP8 rate"));
  }
  return std::make_unique<Roofline>(
      Coefficient(model, device, parallelism, options).Compute(),
      options.mixed_attention() == RooflineOptions::OVERLAPPED,
      absl::StrCat("roofline of ", model.name(), " (",
                   NumberFormat_Name(model.weight_format()), ") on ",
                   parallelism.tensor_parallel, " x ", device.name()));
}

}  // namespace interleave::sim
