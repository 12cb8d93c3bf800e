#include "attention/reference.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/params.h"
#include "attention/tile_schedule.h"
#include "attention/validate.h"
#include "base/status_macros.h"

namespace interleave::attention {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Exponent and mantissa widths of the 16-bit types.
struct Format {
  int exponent_bits;
  int mantissa_bits;
};

Format FormatOf(DataType type) {
  return type == DataType::kBFloat16 ? Format{8, 7} : Format{5, 10};
}

const uint16_t* Row(const InputTensor& tensor, int64_t token, int64_t head) {
  return static_cast<const uint16_t*>(tensor.data) +
         token * tensor.token_stride + head * tensor.head_stride;
}

uint16_t* Row(const OutputTensor& tensor, int64_t token, int64_t head) {
  return static_cast<uint16_t*>(tensor.data) + token * tensor.token_stride +
         head * tensor.head_stride;
}

// A position of a sequence in the cache.
struct Slot {
  int64_t block;
  int64_t slot;
};

std::optional<Slot> FindSlot(const KvCache& cache, const BlockTable& table,
                             int32_t sequence, int64_t position) {
  const int64_t page = position / cache.block_size;
  if (page >= table.max_blocks_per_seq) return std::nullopt;
  const int64_t block = table.data[sequence * table.row_stride + page];
  if (block < 0 || block >= cache.num_blocks) return std::nullopt;
  return Slot{block, position % cache.block_size};
}

uint16_t* KeyAt(const KvCache& cache, Slot slot, int64_t head) {
  return static_cast<uint16_t*>(cache.k) + slot.block * cache.k_block_stride +
         slot.slot * cache.k_slot_stride + head * cache.k_head_stride;
}

uint16_t* ValueAt(const KvCache& cache, Slot slot, int64_t head) {
  return static_cast<uint16_t*>(cache.v) + slot.block * cache.v_block_stride +
         slot.slot * cache.v_slot_stride + head * cache.v_head_stride;
}

// `row` (head_dim elements) rotated at a position, rounded to the type.
std::vector<uint16_t> Rotate(const AttentionShape& shape, const Rotary& rotary,
                             const uint16_t* row, int64_t position) {
  std::vector<uint16_t> out(row, row + shape.head_dim);
  const int half = rotary.rotary_dim / 2;
  const uint16_t* cosines =
      static_cast<const uint16_t*>(rotary.cos) + position * half;
  const uint16_t* sines =
      static_cast<const uint16_t*>(rotary.sin) + position * half;
  for (int pair = 0; pair < half; ++pair) {
    const int first = rotary.interleaved ? 2 * pair : pair;
    const int second = rotary.interleaved ? 2 * pair + 1 : pair + half;
    const double c = ToDouble(shape.dtype, cosines[pair]);
    const double s = ToDouble(shape.dtype, sines[pair]);
    const double x = ToDouble(shape.dtype, row[first]);
    const double y = ToDouble(shape.dtype, row[second]);
    out[first] = FromDouble(shape.dtype, x * c - y * s);
    out[second] = FromDouble(shape.dtype, x * s + y * c);
  }
  return out;
}

// Where key and value `position` of a (sequence, KV head) lie; null: zeros.
using RowFinder = std::function<std::pair<const uint16_t*, const uint16_t*>(
    const SequenceInfo& s, int32_t sequence, int64_t position, int64_t head)>;

class ReferenceAttention {
 public:
  ReferenceAttention(const PlanConfig& config, const BatchMetadata& batch,
                     const AttentionOptions& options, RowFinder find)
      : config_(config),
        shape_(config.shape),
        options_(options),
        find_(std::move(find)) {
    output_.out.assign(batch.total_q * shape_.num_heads * shape_.head_dim, 0.0);
    output_.lse.assign(batch.total_q * shape_.num_heads, -kInfinity);
    output_.owned.assign(batch.total_q, false);
    total_q_ = batch.total_q;
    scale_ = options.softmax_scale != 0
                 ? options.softmax_scale
                 : 1.0 / std::sqrt(static_cast<double>(shape_.head_dim));
  }

  // One row: query token `token` of the sequence, head `head`.
  void Row(const SequenceInfo& s, int32_t sequence, int64_t token, int64_t head,
           const uint16_t* query) {
    output_.owned[s.q_begin + token] = true;
    const int64_t kv_head = head / (shape_.num_heads / shape_.num_kv_heads);
    const int64_t diagonal = token + s.k_len - s.q_len;
    int64_t begin = 0;
    int64_t end = s.k_len;
    const AttentionMask& mask = config_.mask;
    const int64_t right = mask.causal ? 0 : mask.window_right;
    if (mask.window_left >= 0) {
      begin = std::max<int64_t>(begin, diagonal - mask.window_left);
    }
    if (right >= 0) end = std::min<int64_t>(end, diagonal + right + 1);
    if (begin >= end) return;

    std::vector<double> logits;
    double top = -kInfinity;
    for (int64_t j = begin; j < end; ++j) {
      logits.push_back(Logit(query, find_(s, sequence, j, kv_head).first));
      top = std::max(top, logits.back());
    }
    double total = 0;
    if (options_.sinks != nullptr) {
      top = std::max<double>(top, options_.sinks[head]);
      total = std::exp(options_.sinks[head] - top);
    }
    double* out = &output_.out[((s.q_begin + token) * shape_.num_heads + head) *
                               shape_.head_dim];
    for (int64_t j = begin; j < end; ++j) {
      const double weight = std::exp(logits[j - begin] - top);
      total += weight;
      const uint16_t* value = find_(s, sequence, j, kv_head).second;
      if (value == nullptr) continue;
      for (int d = 0; d < shape_.head_dim; ++d) {
        out[d] += weight * ToDouble(shape_.dtype, value[d]);
      }
    }
    for (int d = 0; d < shape_.head_dim; ++d) out[d] /= total;
    output_.lse[head * total_q_ + s.q_begin + token] = top + std::log(total);
  }

  ReferenceOutput Take() { return std::move(output_); }

 private:
  double Logit(const uint16_t* query, const uint16_t* key) const {
    double dot = 0;
    for (int d = 0; key != nullptr && d < shape_.head_dim; ++d) {
      dot += ToDouble(shape_.dtype, query[d]) * ToDouble(shape_.dtype, key[d]);
    }
    if (options_.softcap > 0) {
      return options_.softcap * std::tanh(dot * scale_ / options_.softcap);
    }
    return dot * scale_;
  }

  const PlanConfig& config_;
  const AttentionShape& shape_;
  const AttentionOptions& options_;
  RowFinder find_;
  ReferenceOutput output_;
  int64_t total_q_;
  double scale_;
};

RawLengths RawOf(const BatchMetadata& batch) {
  RawLengths raw;
  raw.batch = batch.batch;
  raw.total_q = batch.total_q;
  raw.cu_seqlens_q = batch.cu_seqlens_q;
  raw.cu_seqlens_k = batch.cu_seqlens_k;
  raw.cache_seqlens = batch.cache_seqlens;
  raw.append = batch.append;
  raw.cu_seqlens_new = batch.cu_seqlens_new;
  raw.total_new = batch.total_new == 0 && batch.cu_seqlens_new == nullptr
                      ? batch.total_q
                      : batch.total_new;
  raw.max_seqlen_k = batch.max_seqlen_k;
  return raw;
}

void Append(const PlanConfig& config, const SequenceInfo& s, int32_t sequence,
            const PagedParams& params) {
  const AttentionShape& shape = config.shape;
  for (int32_t t = 0; t < s.new_len; ++t) {
    const int64_t position = int64_t{s.append_pos} + t;
    const std::optional<Slot> slot =
        FindSlot(params.cache, params.block_table, sequence, position);
    if (!slot.has_value()) continue;
    for (int32_t head = 0; head < shape.num_kv_heads; ++head) {
      const uint16_t* k = Row(params.append.k, s.new_begin + t, head);
      const uint16_t* v = Row(params.append.v, s.new_begin + t, head);
      std::vector<uint16_t> key(k, k + shape.head_dim);
      if (params.append.rotary.cos != nullptr) {
        key = Rotate(shape, params.append.rotary, k, position);
      }
      std::copy(key.begin(), key.end(), KeyAt(params.cache, *slot, head));
      std::copy(v, v + shape.head_dim, ValueAt(params.cache, *slot, head));
    }
  }
}

}  // namespace

double ToDouble(DataType type, uint16_t bits) {
  const Format format = FormatOf(type);
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int exponent =
      (bits >> format.mantissa_bits) & ((1 << format.exponent_bits) - 1);
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << format.exponent_bits) - 1) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * kInfinity;
  }
  if (exponent == 0) {
    return sign * std::ldexp(mantissa, 1 - bias - format.mantissa_bits);
  }
  return sign * std::ldexp(mantissa + (1 << format.mantissa_bits),
                           exponent - bias - format.mantissa_bits);
}

uint16_t FromDouble(DataType type, double value) {
  const Format format = FormatOf(type);
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint16_t infinity = ((1 << format.exponent_bits) - 1)
                            << format.mantissa_bits;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value))
    return sign | infinity | 1 << (format.mantissa_bits - 1);
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  if (std::isinf(value)) return sign | infinity;
  int exponent = std::ilogb(magnitude);
  if (exponent < 1 - bias) exponent = 1 - bias;
  // In units of the last place; nearbyint rounds half to even.
  const double units =
      std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  const double rounded = std::ldexp(units, exponent - format.mantissa_bits);
  if (rounded >= std::ldexp(1.0, bias + 1)) return sign | infinity;
  if (units < (1 << format.mantissa_bits)) {
    return sign | static_cast<uint16_t>(units);  // subnormal
  }
  const int top = std::ilogb(rounded);
  const int mantissa =
      static_cast<int>(std::ldexp(rounded, format.mantissa_bits - top) -
                       (1 << format.mantissa_bits));
  return sign |
         static_cast<uint16_t>((top + bias) << format.mantissa_bits | mantissa);
}

absl::StatusOr<ReferenceOutput> ReferenceVarlenForward(
    const PlanConfig& config, const BatchMetadata& batch,
    const VarlenParams& params) {
  RETURN_IF_ERROR(ValidatePlanConfig(config));
  RETURN_IF_ERROR(ValidateBatch(config, batch, nullptr));
  RETURN_IF_ERROR(ValidateVarlen(config, batch, params, nullptr));
  ReferenceAttention attention(
      config, batch, params.options,
      [&](const SequenceInfo& s, int32_t, int64_t position, int64_t head) {
        return std::make_pair(Row(params.k, s.k_begin + position, head),
                              Row(params.v, s.k_begin + position, head));
      });
  const RawLengths raw = RawOf(batch);
  for (int32_t b = 0; b < batch.batch; ++b) {
    const SequenceInfo s = ReadSequence(raw, b);
    for (int32_t t = 0; t < s.q_len; ++t) {
      for (int32_t head = 0; head < config.shape.num_heads; ++head) {
        attention.Row(s, b, t, head, Row(params.q, s.q_begin + t, head));
      }
    }
  }
  return attention.Take();
}

absl::StatusOr<ReferenceOutput> ReferencePagedForward(
    const PlanConfig& config, const BatchMetadata& batch,
    const PagedParams& params) {
  RETURN_IF_ERROR(ValidatePlanConfig(config));
  RETURN_IF_ERROR(ValidateBatch(config, batch, nullptr));
  RETURN_IF_ERROR(ValidatePaged(config, batch, params, nullptr));
  const RawLengths raw = RawOf(batch);
  for (int32_t b = 0; b < batch.batch; ++b) {
    Append(config, ReadSequence(raw, b), b, params);
  }
  ReferenceAttention attention(
      config, batch, params.options,
      [&](const SequenceInfo&, int32_t sequence, int64_t position,
          int64_t head) -> std::pair<const uint16_t*, const uint16_t*> {
        const std::optional<Slot> slot =
            FindSlot(params.cache, params.block_table, sequence, position);
        if (!slot.has_value()) return {nullptr, nullptr};
        return {KeyAt(params.cache, *slot, head),
                ValueAt(params.cache, *slot, head)};
      });
  for (int32_t b = 0; b < batch.batch; ++b) {
    const SequenceInfo s = ReadSequence(raw, b);
    for (int32_t t = 0; t < s.q_len; ++t) {
      for (int32_t head = 0; head < config.shape.num_heads; ++head) {
        const uint16_t* query = Row(params.q, s.q_begin + t, head);
        std::vector<uint16_t> rotated;
        if (config.rotate_queries) {
          rotated = Rotate(config.shape, params.append.rotary, query,
                           int64_t{s.append_pos} + t);
          query = rotated.data();
        }
        attention.Row(s, b, t, head, query);
      }
    }
  }
  return attention.Take();
}

absl::Status ReferenceScatter(const ScatterParams& params) {
  RETURN_IF_ERROR(ValidateScatter(params, 0, nullptr));
  const int64_t slots = params.cache.num_blocks * params.cache.block_size;
  const size_t bytes = params.shape.head_dim * sizeof(uint16_t);
  for (int64_t t = 0; t < params.total_tokens; ++t) {
    const int64_t slot = params.slot_mapping[t];
    if (slot < 0 || slot >= slots) continue;
    const Slot place = {slot / params.cache.block_size,
                        slot % params.cache.block_size};
    for (int32_t head = 0; head < params.shape.num_kv_heads; ++head) {
      std::memcpy(KeyAt(params.cache, place, head), Row(params.k, t, head),
                  bytes);
      std::memcpy(ValueAt(params.cache, place, head), Row(params.v, t, head),
                  bytes);
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceGather(const GatherParams& params) {
  RETURN_IF_ERROR(ValidateGather(params, 0, nullptr));
  const size_t bytes = params.shape.head_dim * sizeof(uint16_t);
  for (int32_t b = 0; b < params.batch; ++b) {
    const int64_t begin = params.cu_seqlens_k[b];
    const int64_t end =
        std::min<int64_t>(params.cu_seqlens_k[b + 1], params.total_k);
    for (int64_t row = begin; row < end; ++row) {
      const std::optional<Slot> slot =
          FindSlot(params.cache, params.block_table, b, row - begin);
      if (!slot.has_value()) continue;
      for (int32_t head = 0; head < params.shape.num_kv_heads; ++head) {
        std::memcpy(Row(params.k, row, head), KeyAt(params.cache, *slot, head),
                    bytes);
        std::memcpy(Row(params.v, row, head),
                    ValueAt(params.cache, *slot, head), bytes);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceMergeStates(const MergeParams& params) {
  RETURN_IF_ERROR(ValidateMerge(params, 0, nullptr));
  const DataType type = params.shape.dtype;
  for (int64_t t = 0; t < params.total_q; ++t) {
    for (int32_t head = 0; head < params.shape.num_heads; ++head) {
      const int64_t at = head * params.total_q + t;
      const double a = params.lse_a[at];
      const double b = params.lse_b[at];
      const double top = std::max(a, b);
      const bool empty = top == -kInfinity;
      const double weight_a = empty ? 0 : std::exp(a - top);
      const double weight_b = empty ? 0 : std::exp(b - top);
      const double total = weight_a + weight_b;
      for (int d = 0; d < params.shape.head_dim; ++d) {
        double x = 0;
        if (weight_a > 0) {
          x += weight_a * ToDouble(type, Row(params.a, t, head)[d]);
        }
        if (weight_b > 0) {
          x += weight_b * ToDouble(type, Row(params.b, t, head)[d]);
        }
        Row(params.out, t, head)[d] = FromDouble(type, empty ? 0 : x / total);
      }
      if (params.lse != nullptr) {
        params.lse[at] =
            static_cast<float>(empty ? -kInfinity : top + std::log(total));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace interleave::attention
