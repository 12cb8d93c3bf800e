#include "attention/validate.h"

#include <cmath>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "attention/params.h"
#include "base/status_macros.h"

namespace interleave::attention {
namespace {

template <typename... Parts>
absl::Status Refuse(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

class Checker {
 public:
  Checker(const AttentionShape& shape, int32_t device, PointerInspector inspect)
      : shape_(shape), device_(device), inspect_(inspect) {}

  // A device pointer, aligned to `alignment` bytes.
  absl::Status Pointer(absl::string_view name, const void* pointer,
                       int alignment) const {
    if (pointer == nullptr) return Refuse(name, " is null");
    if (reinterpret_cast<uintptr_t>(pointer) % alignment != 0) {
      return Refuse(name, " is not aligned to ", alignment, " bytes");
    }
    if (inspect_ != nullptr) return inspect_(pointer, device_, name);
    return absl::OkStatus();
  }

  absl::Status Stride(absl::string_view name, int64_t stride, int64_t extent,
                      bool written) const {
    if (stride % 8 != 0) {
      return Refuse(name, " is ", stride, ", not a multiple of 8 elements");
    }
    if (stride < 0) return Refuse(name, " is negative: ", stride);
    if (written && extent > 1 && stride < shape_.head_dim) {
      return Refuse(name, " is ", stride, ": rows of head_dim ",
                    shape_.head_dim, " would overlap");
    }
    return absl::OkStatus();
  }

  absl::Status Tensor(absl::string_view name, const void* data,
                      int64_t token_stride, int64_t head_stride, int64_t tokens,
                      int32_t heads, bool written) const {
    if (tokens == 0) return absl::OkStatus();
    RETURN_IF_ERROR(Pointer(absl::StrCat(name, ".data"), data, 16));
    RETURN_IF_ERROR(Stride(absl::StrCat(name, ".token_stride"), token_stride,
                           tokens, written));
    return Stride(absl::StrCat(name, ".head_stride"), head_stride, heads,
                  written);
  }

  absl::Status Input(absl::string_view name, const InputTensor& tensor,
                     int64_t tokens, int32_t heads) const {
    return Tensor(name, tensor.data, tensor.token_stride, tensor.head_stride,
                  tokens, heads, false);
  }

  absl::Status Output(absl::string_view name, const OutputTensor& tensor,
                      int64_t tokens, int32_t heads) const {
    return Tensor(name, tensor.data, tensor.token_stride, tensor.head_stride,
                  tokens, heads, true);
  }

  absl::Status Cache(const KvCache& cache) const {
    if (cache.num_blocks < 0 || cache.num_blocks > kMaxCount) {
      return Refuse("cache.num_blocks is ", cache.num_blocks);
    }
    const int32_t size = cache.block_size;
    const bool power = size >= 1 && size <= 1024 && (size & (size - 1)) == 0;
    if (!power && size != 48 && size != 480) {
      return Refuse("cache.block_size is ", size,
                    "; it must be a power of two up to 1024, or 48 or 480");
    }
    if (cache.num_blocks == 0) return absl::OkStatus();
    RETURN_IF_ERROR(Pointer("cache.k", cache.k, 16));
    RETURN_IF_ERROR(Pointer("cache.v", cache.v, 16));
    const int32_t heads = shape_.num_kv_heads;
    RETURN_IF_ERROR(Stride("cache.k_block_stride", cache.k_block_stride,
                           cache.num_blocks, true));
    RETURN_IF_ERROR(
        Stride("cache.k_slot_stride", cache.k_slot_stride, size, true));
    RETURN_IF_ERROR(
        Stride("cache.k_head_stride", cache.k_head_stride, heads, true));
    RETURN_IF_ERROR(Stride("cache.v_block_stride", cache.v_block_stride,
                           cache.num_blocks, true));
    RETURN_IF_ERROR(
        Stride("cache.v_slot_stride", cache.v_slot_stride, size, true));
    return Stride("cache.v_head_stride", cache.v_head_stride, heads, true);
  }

  absl::Status Table(const BlockTable& table, int32_t batch) const {
    if (table.max_blocks_per_seq < 0) {
      return Refuse("block_table.max_blocks_per_seq is ",
                    table.max_blocks_per_seq);
    }
    if (batch == 0 || table.max_blocks_per_seq == 0) return absl::OkStatus();
    RETURN_IF_ERROR(Pointer("block_table.data", table.data, 4));
    if (batch > 1 && table.row_stride < table.max_blocks_per_seq) {
      return Refuse("block_table.row_stride is ", table.row_stride,
                    ", less than max_blocks_per_seq ",
                    table.max_blocks_per_seq);
    }
    return absl::OkStatus();
  }

  absl::Status Lse(const float* lse, int64_t head_stride,
                   int64_t total_q) const {
    if (lse == nullptr || total_q == 0) return absl::OkStatus();
    RETURN_IF_ERROR(Pointer("lse", lse, 4));
    if (head_stride != 0 && head_stride < total_q) {
      return Refuse("lse_head_stride is ", head_stride, ", less than total_q ",
                    total_q);
    }
    return absl::OkStatus();
  }

  absl::Status Options(const AttentionOptions& options) const {
    if (!std::isfinite(options.softmax_scale) || options.softmax_scale < 0) {
      return Refuse("options.softmax_scale is ", options.softmax_scale,
                    "; it must be finite and positive, or 0 for the default");
    }
    if (!std::isfinite(options.softcap) || options.softcap < 0) {
      return Refuse("options.softcap is ", options.softcap,
                    "; it must be finite and positive, or 0 for none");
    }
    if (options.sinks == nullptr) return absl::OkStatus();
    return Pointer("options.sinks", options.sinks, 4);
  }

  absl::Status RotaryTables(const Rotary& rotary, int64_t max_seqlen_k) const {
    if (rotary.cos == nullptr && rotary.sin == nullptr) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(Pointer("append.rotary.cos", rotary.cos, 2));
    RETURN_IF_ERROR(Pointer("append.rotary.sin", rotary.sin, 2));
    if (rotary.rotary_dim <= 0 || rotary.rotary_dim % 2 != 0 ||
        rotary.rotary_dim > shape_.head_dim) {
      return Refuse("append.rotary.rotary_dim is ", rotary.rotary_dim,
                    "; it must be even, positive and at most head_dim ",
                    shape_.head_dim);
    }
    if (rotary.max_position < max_seqlen_k) {
      return Refuse("append.rotary.max_position is ", rotary.max_position,
                    ", less than max_seqlen_k ", max_seqlen_k);
    }
    return absl::OkStatus();
  }

 private:
  const AttentionShape& shape_;
  int32_t device_;
  PointerInspector inspect_;
};

absl::Status CheckOffsets(absl::string_view name,
                          absl::Span<const int32_t> offsets, int32_t batch,
                          int64_t total) {
  if (offsets.empty()) return absl::OkStatus();
  if (offsets.size() != static_cast<size_t>(batch) + 1) {
    return Refuse(name, " has ", offsets.size(),
                  " entries, not batch + 1 = ", batch + 1);
  }
  if (offsets[0] != 0) return Refuse(name, "[0] is ", offsets[0], ", not 0");
  for (int32_t b = 0; b < batch; ++b) {
    if (offsets[b + 1] < offsets[b]) {
      return absl::OutOfRangeError(
          absl::StrCat(name, "[", b + 1, "] = ", offsets[b + 1],
                       " is less than ", name, "[", b, "] = ", offsets[b]));
    }
  }
  if (offsets[batch] > total) {
    return absl::OutOfRangeError(
        absl::StrCat(name, "[", batch, "] = ", offsets[batch], " passes the ",
                     total, " rows there are"));
  }
  return absl::OkStatus();
}

// New tokens of sequence b, by whichever offsets the host knows; -1: unknown.
int64_t HostNewTokens(const BatchMetadata& batch, int32_t b) {
  if (!batch.append) return 0;
  if (batch.cu_seqlens_new != nullptr) {
    if (batch.host_cu_seqlens_new.empty()) return -1;
    return batch.host_cu_seqlens_new[b + 1] - batch.host_cu_seqlens_new[b];
  }
  if (batch.cu_seqlens_q == nullptr) return 1;
  if (batch.host_cu_seqlens_q.empty()) return -1;
  return batch.host_cu_seqlens_q[b + 1] - batch.host_cu_seqlens_q[b];
}

absl::Status CheckHostCacheLengths(const BatchMetadata& batch) {
  const absl::Span<const int32_t> lengths = batch.host_cache_seqlens;
  if (lengths.empty()) return absl::OkStatus();
  if (lengths.size() != static_cast<size_t>(batch.batch)) {
    return Refuse("host_cache_seqlens has ", lengths.size(),
                  " entries, not batch = ", batch.batch);
  }
  for (int32_t b = 0; b < batch.batch; ++b) {
    if (lengths[b] < -1) {
      return absl::OutOfRangeError(absl::StrCat(
          "host_cache_seqlens[", b, "] = ", lengths[b], " is below -1"));
    }
    if (lengths[b] < 0) continue;
    const int64_t fresh = HostNewTokens(batch, b);
    if (lengths[b] + (fresh < 0 ? 0 : fresh) > batch.max_seqlen_k) {
      return absl::OutOfRangeError(
          absl::StrCat("host_cache_seqlens[", b, "] = ", lengths[b], " and ",
                       fresh < 0 ? 0 : fresh, " new tokens pass max_seqlen_k ",
                       batch.max_seqlen_k));
    }
  }
  return absl::OkStatus();
}

int64_t TotalNew(const BatchMetadata& batch) {
  return batch.total_new == 0 && batch.cu_seqlens_new == nullptr
             ? batch.total_q
             : batch.total_new;
}

absl::Status CheckBatchSizes(const PlanConfig& config,
                             const BatchMetadata& batch) {
  if (batch.batch < 0 || batch.batch > config.max_batch) {
    return Refuse("batch is ", batch.batch, ", outside [0, max_batch ",
                  config.max_batch, "]");
  }
  if (batch.total_q < 0 || batch.total_q > config.max_total_q) {
    return Refuse("total_q is ", batch.total_q, ", outside [0, max_total_q ",
                  config.max_total_q, "]");
  }
  if (batch.cu_seqlens_q == nullptr && batch.total_q < batch.batch) {
    return Refuse("total_q is ", batch.total_q,
                  " but without cu_seqlens_q each of ", batch.batch,
                  " sequences has a query");
  }
  if (batch.max_seqlen_k < 0 || batch.max_seqlen_k > kMaxCount) {
    return Refuse("max_seqlen_k is ", batch.max_seqlen_k, ", outside [0, ",
                  kMaxCount, "]");
  }
  if (!batch.append) return absl::OkStatus();
  const int64_t most =
      config.max_total_new != 0 ? config.max_total_new : config.max_total_q;
  if (batch.total_new < 0 || TotalNew(batch) > most) {
    return Refuse("total_new is ", TotalNew(batch), ", outside [0, ", most,
                  "]");
  }
  if (batch.cu_seqlens_new == nullptr && TotalNew(batch) < batch.total_q) {
    return Refuse("total_new is ", batch.total_new, ", less than total_q ",
                  batch.total_q, ", whose tokens are appended");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateShape(const AttentionShape& shape) {
  if (shape.dtype != DataType::kBFloat16 && shape.dtype != DataType::kFloat16) {
    return Refuse("shape.dtype is ", static_cast<int32_t>(shape.dtype),
                  "; bf16 and fp16 are supported");
  }
  switch (shape.head_dim) {
    case 64:
    case 80:
    case 96:
    case 128:
    case 192:
    case 256:
      break;
    default:
      return Refuse("shape.head_dim is ", shape.head_dim,
                    "; 64, 80, 96, 128, 192 and 256 are supported");
  }
  if (shape.num_kv_heads <= 0) {
    return Refuse("shape.num_kv_heads is ", shape.num_kv_heads);
  }
  if (shape.num_heads <= 0 || shape.num_heads % shape.num_kv_heads != 0) {
    return Refuse("shape.num_heads is ", shape.num_heads,
                  ", not a positive multiple of num_kv_heads ",
                  shape.num_kv_heads);
  }
  return absl::OkStatus();
}

absl::Status ValidatePlanConfig(const PlanConfig& config) {
  RETURN_IF_ERROR(ValidateShape(config.shape));
  if (config.mask.window_left < -1) {
    return Refuse("mask.window_left is ", config.mask.window_left,
                  "; it must be -1 (unbounded) or more");
  }
  if (config.mask.window_right < -1) {
    return Refuse("mask.window_right is ", config.mask.window_right,
                  "; it must be -1 (unbounded) or more");
  }
  if (config.max_batch < 0) return Refuse("max_batch is ", config.max_batch);
  const int64_t packed_limit =
      kMaxCount / (config.shape.num_heads / config.shape.num_kv_heads);
  if (config.max_total_q < 0 || config.max_total_q > packed_limit) {
    return Refuse("max_total_q is ", config.max_total_q, ", outside [0, ",
                  packed_limit, "]");
  }
  if (config.max_total_new < 0 || config.max_total_new > kMaxCount) {
    return Refuse("max_total_new is ", config.max_total_new, ", outside [0, ",
                  kMaxCount, "]");
  }
  if (config.kernels != KernelChoice::kAuto &&
      config.kernels != KernelChoice::kPortable) {
    return Refuse("kernels is ", static_cast<int32_t>(config.kernels),
                  ", which names no family");
  }
  if (config.device < 0) return Refuse("device is ", config.device);
  return absl::OkStatus();
}

absl::Status ValidateBatch(const PlanConfig& config, const BatchMetadata& batch,
                           PointerInspector inspect) {
  RETURN_IF_ERROR(CheckBatchSizes(config, batch));
  if (batch.cu_seqlens_k != nullptr && batch.cache_seqlens != nullptr) {
    return Refuse("cu_seqlens_k and cache_seqlens are both set");
  }
  if (batch.batch > 0 && batch.cu_seqlens_k == nullptr &&
      batch.cache_seqlens == nullptr) {
    return Refuse("cu_seqlens_k and cache_seqlens are both null");
  }
  if (batch.append && batch.cu_seqlens_k != nullptr) {
    return Refuse("append is set, but cu_seqlens_k says contiguous keys");
  }
  const Checker checker(config.shape, config.device, inspect);
  if (batch.batch > 0) {
    const struct {
      absl::string_view name;
      const int32_t* pointer;
    } arrays[] = {{"cu_seqlens_q", batch.cu_seqlens_q},
                  {"cu_seqlens_k", batch.cu_seqlens_k},
                  {"cache_seqlens", batch.cache_seqlens},
                  {"cu_seqlens_new", batch.cu_seqlens_new}};
    for (const auto& array : arrays) {
      if (array.pointer == nullptr) continue;
      RETURN_IF_ERROR(checker.Pointer(array.name, array.pointer, 4));
    }
  }
  RETURN_IF_ERROR(CheckOffsets("host_cu_seqlens_q", batch.host_cu_seqlens_q,
                               batch.batch, batch.total_q));
  RETURN_IF_ERROR(CheckOffsets("host_cu_seqlens_k", batch.host_cu_seqlens_k,
                               batch.batch, batch.max_seqlen_k));
  RETURN_IF_ERROR(CheckOffsets("host_cu_seqlens_new", batch.host_cu_seqlens_new,
                               batch.batch, TotalNew(batch)));
  return CheckHostCacheLengths(batch);
}

absl::Status ValidateVarlen(const PlanConfig& config,
                            const BatchMetadata& batch,
                            const VarlenParams& params,
                            PointerInspector inspect) {
  const AttentionShape& shape = config.shape;
  if (batch.batch > 0 && batch.cu_seqlens_k == nullptr) {
    return Refuse(
        "plan was updated without cu_seqlens_k, which contiguous "
        "keys need");
  }
  if (params.total_k < 0 || params.total_k != batch.max_seqlen_k) {
    return Refuse("total_k is ", params.total_k,
                  ", but the plan was updated with max_seqlen_k ",
                  batch.max_seqlen_k);
  }
  const Checker checker(shape, config.device, inspect);
  RETURN_IF_ERROR(checker.Input("q", params.q, batch.total_q, shape.num_heads));
  RETURN_IF_ERROR(
      checker.Input("k", params.k, params.total_k, shape.num_kv_heads));
  RETURN_IF_ERROR(
      checker.Input("v", params.v, params.total_k, shape.num_kv_heads));
  RETURN_IF_ERROR(
      checker.Output("out", params.out, batch.total_q, shape.num_heads));
  RETURN_IF_ERROR(
      checker.Lse(params.lse, params.lse_head_stride, batch.total_q));
  return checker.Options(params.options);
}

absl::Status ValidatePaged(const PlanConfig& config, const BatchMetadata& batch,
                           const PagedParams& params,
                           PointerInspector inspect) {
  const AttentionShape& shape = config.shape;
  if (batch.batch > 0 && batch.cache_seqlens == nullptr) {
    return Refuse(
        "plan was updated without cache_seqlens, which paged keys "
        "need");
  }
  const Checker checker(shape, config.device, inspect);
  RETURN_IF_ERROR(checker.Input("q", params.q, batch.total_q, shape.num_heads));
  RETURN_IF_ERROR(checker.Cache(params.cache));
  RETURN_IF_ERROR(checker.Table(params.block_table, batch.batch));
  const int64_t capacity =
      int64_t{params.block_table.max_blocks_per_seq} * params.cache.block_size;
  if (batch.max_seqlen_k > capacity) {
    return Refuse("block_table.max_blocks_per_seq is ",
                  params.block_table.max_blocks_per_seq, " of block_size ",
                  params.cache.block_size, ", too few for max_seqlen_k ",
                  batch.max_seqlen_k);
  }
  if (batch.append) {
    if (params.append.total_tokens < TotalNew(batch)) {
      return Refuse("append.total_tokens is ", params.append.total_tokens,
                    ", less than the plan's total_new ", TotalNew(batch));
    }
    RETURN_IF_ERROR(checker.Input("append.k", params.append.k, TotalNew(batch),
                                  shape.num_kv_heads));
    RETURN_IF_ERROR(checker.Input("append.v", params.append.v, TotalNew(batch),
                                  shape.num_kv_heads));
    RETURN_IF_ERROR(
        checker.RotaryTables(params.append.rotary, batch.max_seqlen_k));
    if (config.rotate_queries && params.append.rotary.cos == nullptr) {
      return Refuse("append.rotary.cos is null, but the plan rotates queries");
    }
    if (!config.rotate_queries && params.append.rotary.cos != nullptr) {
      return Refuse(
          "append.rotary.cos is set, but the plan's rotate_queries "
          "is not");
    }
  } else if (config.rotate_queries) {
    return Refuse("append is off, but the plan's rotate_queries is set");
  }
  RETURN_IF_ERROR(
      checker.Output("out", params.out, batch.total_q, shape.num_heads));
  RETURN_IF_ERROR(
      checker.Lse(params.lse, params.lse_head_stride, batch.total_q));
  return checker.Options(params.options);
}

absl::Status ValidateScatter(const ScatterParams& params, int32_t device,
                             PointerInspector inspect) {
  RETURN_IF_ERROR(ValidateShape(params.shape));
  if (params.total_tokens < 0) {
    return Refuse("total_tokens is ", params.total_tokens);
  }
  const Checker checker(params.shape, device, inspect);
  const int32_t heads = params.shape.num_kv_heads;
  RETURN_IF_ERROR(checker.Cache(params.cache));
  RETURN_IF_ERROR(checker.Input("k", params.k, params.total_tokens, heads));
  RETURN_IF_ERROR(checker.Input("v", params.v, params.total_tokens, heads));
  if (params.total_tokens == 0) return absl::OkStatus();
  return checker.Pointer("slot_mapping", params.slot_mapping, 8);
}

absl::Status ValidateGather(const GatherParams& params, int32_t device,
                            PointerInspector inspect) {
  RETURN_IF_ERROR(ValidateShape(params.shape));
  if (params.batch < 0) return Refuse("batch is ", params.batch);
  if (params.total_k < 0 || params.total_k > kMaxCount) {
    return Refuse("total_k is ", params.total_k, ", outside [0, ", kMaxCount,
                  "]");
  }
  const Checker checker(params.shape, device, inspect);
  const int32_t heads = params.shape.num_kv_heads;
  RETURN_IF_ERROR(checker.Cache(params.cache));
  RETURN_IF_ERROR(checker.Table(params.block_table, params.batch));
  RETURN_IF_ERROR(checker.Output("k", params.k, params.total_k, heads));
  RETURN_IF_ERROR(checker.Output("v", params.v, params.total_k, heads));
  if (params.batch == 0) return absl::OkStatus();
  return checker.Pointer("cu_seqlens_k", params.cu_seqlens_k, 4);
}

absl::Status ValidateMerge(const MergeParams& params, int32_t device,
                           PointerInspector inspect) {
  RETURN_IF_ERROR(ValidateShape(params.shape));
  if (params.total_q < 0 || params.total_q > kMaxCount) {
    return Refuse("total_q is ", params.total_q, ", outside [0, ", kMaxCount,
                  "]");
  }
  if (params.total_q == 0) return absl::OkStatus();
  const Checker checker(params.shape, device, inspect);
  const int32_t heads = params.shape.num_heads;
  RETURN_IF_ERROR(checker.Input("a", params.a, params.total_q, heads));
  RETURN_IF_ERROR(checker.Input("b", params.b, params.total_q, heads));
  RETURN_IF_ERROR(checker.Output("out", params.out, params.total_q, heads));
  RETURN_IF_ERROR(checker.Pointer("lse_a", params.lse_a, 4));
  RETURN_IF_ERROR(checker.Pointer("lse_b", params.lse_b, 4));
  return checker.Lse(params.lse, 0, params.total_q);
}

}  // namespace interleave::attention
