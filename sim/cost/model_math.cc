#include "sim/cost/model_math.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace interleave::sim {
namespace {

int64_t QueryWidth(const ModelSpec& m) {
  return int64_t{m.num_heads()} * m.head_dim();
}

int64_t KvWidth(const ModelSpec& m) {
  return int64_t{m.num_kv_heads()} * m.head_dim();
}

int64_t KvHeadsPerDevice(const ModelSpec& m, int degree) {
  return std::max<int64_t>(1, m.num_kv_heads() / degree);
}

// Weights of linear layers that a quantised model quantises, of one layer.
int64_t QuantisedPerLayer(const ModelSpec& m) {
  const int64_t hidden = m.hidden_size();
  const int64_t experts = std::max(1, m.num_experts());
  return hidden * (QueryWidth(m) + 2 * KvWidth(m)) + QueryWidth(m) * hidden +
         experts * 3 * hidden * m.intermediate_size();
}

int64_t SmallPerLayer(const ModelSpec& m) {
  const int64_t norms =
      2 * int64_t{m.hidden_size()} +
      (m.query_key_norm() ? 2 * int64_t{m.head_dim()} : int64_t{0});
  return norms + int64_t{m.num_experts()} * m.hidden_size();
}

int64_t EmbeddingNumbers(const ModelSpec& m) {
  const int64_t table = int64_t{m.vocab_size()} * m.hidden_size();
  return m.tied_embeddings() ? table : 2 * table;
}

}  // namespace

int64_t BytesPerNumber(NumberFormat format) { return format == FP8 ? 1 : 2; }

int64_t ParameterCount(const ModelSpec& m) {
  return m.num_layers() * (QuantisedPerLayer(m) + SmallPerLayer(m)) +
         EmbeddingNumbers(m) + m.hidden_size();
}

int64_t WeightBytes(const ModelSpec& model) {
  return WeightBytesPerDevice(model, 1);
}

int64_t KvBytesPerToken(const ModelSpec& model) {
  return KvBytesPerTokenPerDevice(model, 1);
}

absl::Status CheckTensorParallel(const ModelSpec& m, int degree) {
  if (degree < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor_parallel is ", degree, "; it must be at least 1"));
  }
  const bool kv_heads_divide =
      m.num_kv_heads() % degree == 0 || degree % m.num_kv_heads() == 0;
  if (m.num_heads() % degree != 0 || m.intermediate_size() % degree != 0 ||
      m.vocab_size() % degree != 0 || !kv_heads_divide) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor_parallel ", degree, " does not divide model \"", m.name(),
        "\": num_heads ", m.num_heads(), ", num_kv_heads ", m.num_kv_heads(),
        ", intermediate_size ", m.intermediate_size(), ", vocab_size ",
        m.vocab_size()));
  }
  return absl::OkStatus();
}

int64_t WeightBytesPerDevice(const ModelSpec& m, int degree) {
  const int64_t hidden = m.hidden_size();
  const int64_t kv_width = KvHeadsPerDevice(m, degree) * m.head_dim();
  const int64_t experts = std::max(1, m.num_experts());
  const int64_t linear =
      hidden * (2 * QueryWidth(m) / degree + 2 * kv_width) +
      experts * 3 * hidden * (m.intermediate_size() / degree);
  return m.num_layers() * (linear * BytesPerNumber(m.weight_format()) +
                           2 * SmallPerLayer(m)) +
         2 * (EmbeddingNumbers(m) / degree + hidden);
}

int64_t KvBytesPerTokenPerDevice(const ModelSpec& m, int degree) {
  return 2 * int64_t{m.num_layers()} * KvHeadsPerDevice(m, degree) *
         m.head_dim() * BytesPerNumber(m.kv_format());
}

absl::StatusOr<KvMemory> DeriveKvMemory(const ModelSpec& m,
                                        const DeviceSpec& device,
                                        const KvMemoryOptions& options) {
  const int degree = options.tensor_parallel;
  RETURN_IF_ERROR(CheckTensorParallel(m, degree));
  if (!(options.gpu_memory_utilization > 0 &&
        options.gpu_memory_utilization <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "gpu_memory_utilization is ", options.gpu_memory_utilization,
        "; it must be above 0 and at most 1"));
  }
  if (options.block_size < 1 || options.max_num_batched_tokens < 1 ||
      options.max_num_seqs < 1 || options.runtime_bytes < 0) {
    return absl::InvalidArgumentError(
        "block_size, max_num_batched_tokens and max_num_seqs must be at least "
        "1, runtime_bytes at least 0");
  }
  const int64_t widest = 4 * int64_t{m.hidden_size()} +
                         3 * int64_t{m.intermediate_size()} / degree +
                         2 * QueryWidth(m) / degree +
                         2 * KvHeadsPerDevice(m, degree) * m.head_dim();
  KvMemory memory;
  memory.weight_bytes = WeightBytesPerDevice(m, degree);
  memory.block_bytes = KvBytesPerTokenPerDevice(m, degree) * options.block_size;
  memory.activation_bytes = 2 * widest * options.max_num_batched_tokens +
                            8 * int64_t{options.max_num_seqs} * m.vocab_size();
  const auto budget =
      static_cast<int64_t>(static_cast<double>(device.memory_bytes()) *
                           options.gpu_memory_utilization);
  const int64_t free = budget - memory.weight_bytes - memory.activation_bytes -
                       options.runtime_bytes;
  memory.num_blocks = free > 0 ? free / memory.block_bytes : 0;
  const auto gib = [](int64_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(int64_t{1} << 30);
  };
  memory.explanation = absl::StrFormat(
      "KV memory of %s on %s%s: %.2f x %.2f GiB - weights %.2f GiB - "
      "activations %.2f GiB (%d tokens, %d sequences) - runtime %.2f GiB = "
      "%.2f GiB / %.3f MiB a block of %d tokens = %d blocks (%d tokens)",
      m.name(), device.name(),
      degree > 1 ? absl::StrCat(" (each of ", degree, ")") : "",
      options.gpu_memory_utilization, gib(device.memory_bytes()),
      gib(memory.weight_bytes), gib(memory.activation_bytes),
      options.max_num_batched_tokens, options.max_num_seqs,
      gib(options.runtime_bytes), gib(free), gib(memory.block_bytes) * 1024.0,
      options.block_size, memory.num_blocks,
      memory.num_blocks * options.block_size);
  if (memory.num_blocks < 1) {
    return absl::ResourceExhaustedError(absl::StrCat(
        memory.explanation,
        "; take a larger device, a smaller model, tensor_parallel, fewer "
        "batched tokens, or give the number of blocks"));
  }
  return memory;
}

}  // namespace interleave::sim
