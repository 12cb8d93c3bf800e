#include "sim/kernel_executor/decoder_options.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "sim/cost/model.pb.h"

namespace interleave::sim {
namespace {

template <typename... Parts>
absl::Status Refuse(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

absl::Status Lacks(const ModelSpec& model, absl::string_view what) {
  return absl::UnimplementedError(
      absl::StrCat("model \"", model.name(), "\" has ", what,
                   ", which the kernels do not run; use the cost model"));
}

absl::Status ValidateDecoderShape(const DecoderShape& shape) {
  const struct {
    absl::string_view name;
    int32_t value;
    int32_t multiple;
  } fields[] = {{"num_layers", shape.num_layers, 1},
                {"hidden_size", shape.hidden_size, 8},
                {"num_heads", shape.num_heads, 1},
                {"num_kv_heads", shape.num_kv_heads, 1},
                {"head_dim", shape.head_dim, 16},
                {"intermediate_size", shape.intermediate_size, 8},
                {"vocab_size", shape.vocab_size, 8}};
  for (const auto& field : fields) {
    if (field.value > 0 && field.value % field.multiple == 0) continue;
    return Refuse("shape.", field.name, " is ", field.value,
                  "; it must be a positive multiple of ", field.multiple);
  }
  if (shape.hidden_size > 16384) {
    return Refuse("shape.hidden_size is ", shape.hidden_size,
                  "; the kernels take at most 16384");
  }
  if (shape.num_heads % shape.num_kv_heads != 0) {
    return Refuse("shape.num_heads is ", shape.num_heads,
                  ", not a multiple of num_kv_heads ", shape.num_kv_heads);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DecoderShape> DecoderShapeOf(const ModelSpec& model) {
  if (model.num_experts() > 0) return Lacks(model, "experts");
  if (model.query_key_norm()) {
    return Lacks(model, "norms of queries and keys");
  }
  if (model.weight_format() != BF16 || model.kv_format() != BF16) {
    return Lacks(model,
                 "weights or keys and values in a format other than "
                 "bf16");
  }
  DecoderShape shape;
  shape.num_layers = model.num_layers();
  shape.hidden_size = model.hidden_size();
  shape.num_heads = model.num_heads();
  shape.num_kv_heads = model.num_kv_heads();
  shape.head_dim = model.head_dim();
  shape.intermediate_size = model.intermediate_size();
  shape.vocab_size = model.vocab_size();
  shape.tied_embeddings = model.tied_embeddings();
  RETURN_IF_ERROR(ValidateDecoderShape(shape));
  return shape;
}

absl::Status ValidateDecoderOptions(const DecoderOptions& options) {
  RETURN_IF_ERROR(ValidateDecoderShape(options.shape));
  if (options.tensor_parallel_size != 1 || options.tensor_parallel_rank != 0) {
    return absl::UnimplementedError(absl::StrCat(
        "tensor_parallel_size is ", options.tensor_parallel_size, " and rank ",
        options.tensor_parallel_rank, "; the kernels run on one device"));
  }
  const struct {
    absl::string_view name;
    int32_t value;
  } fields[] = {{"block_size", options.block_size},
                {"max_num_seqs", options.max_num_seqs},
                {"max_num_batched_tokens", options.max_num_batched_tokens},
                {"max_model_len", options.max_model_len}};
  for (const auto& field : fields) {
    if (field.value < 1) {
      return Refuse(field.name, " is ", field.value, "; it must be at least 1");
    }
  }
  const int32_t size = options.block_size;
  const bool power = size <= 1024 && (size & (size - 1)) == 0;
  if (!power && size != 48 && size != 480) {
    return Refuse("block_size is ", size,
                  "; the kernels take a power of two up to 1024, 48 or 480");
  }
  if (options.max_num_batched_tokens < options.max_num_seqs) {
    return Refuse("max_num_batched_tokens is ", options.max_num_batched_tokens,
                  ", less than max_num_seqs ", options.max_num_seqs,
                  ", so that not every sequence could decode");
  }
  if (options.num_blocks < 0 ||
      options.num_blocks >
          std::numeric_limits<int32_t>::max() / options.block_size) {
    return Refuse("num_blocks is ", options.num_blocks,
                  "; it must be from 0 to ",
                  std::numeric_limits<int32_t>::max() / options.block_size);
  }
  if (!(options.memory_utilization > 0 && options.memory_utilization <= 1)) {
    return Refuse("memory_utilization is ", options.memory_utilization,
                  "; it must be above 0, at most 1");
  }
  if (options.device < 0) return Refuse("device is ", options.device);
  return absl::OkStatus();
}

std::vector<int32_t> GraphBatchSizes(int32_t max_num_seqs) {
  std::vector<int32_t> sizes;
  for (int32_t size = 1; size < max_num_seqs;) {
    sizes.push_back(size);
    if (size < 8) {
      size *= 2;
    } else if (size < 64) {
      size += 8;
    } else {
      size += size < 256 ? 16 : 32;
    }
  }
  sizes.push_back(max_num_seqs);
  return sizes;
}

}  // namespace interleave::sim
