// What a decoder is made from; no CUDA is needed to read or check it.

#ifndef SIM_KERNEL_EXECUTOR_DECODER_OPTIONS_H_
#define SIM_KERNEL_EXECUTOR_DECODER_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sim/cost/model.pb.h"

namespace interleave::sim {

struct DecoderShape {
  int32_t num_layers = 0;
  int32_t hidden_size = 0;
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t intermediate_size = 0;
  int32_t vocab_size = 0;
  bool tied_embeddings = false;
  double rope_theta = 500000.0;
  double norm_epsilon = 1e-5;

  bool operator==(const DecoderShape&) const = default;
};

// Unimplemented names what of the model the decoder lacks: experts, norms of
// queries and keys, formats other than bf16.
absl::StatusOr<DecoderShape> DecoderShapeOf(const ModelSpec& model);

struct DecoderOptions {
  DecoderShape shape;
  int32_t block_size = 16;
  // KV blocks. 0: as many as memory_utilization of the device's memory holds
  // beside everything else.
  int64_t num_blocks = 0;
  double memory_utilization = 0.9;
  // Limits of one batch.
  int32_t max_num_seqs = 256;
  int32_t max_num_batched_tokens = 2048;
  // Tokens of one sequence, prompt and generated.
  int32_t max_model_len = 8192;
  uint64_t seed = 1;
  int32_t device = 0;
  // Of the group of devices that share the model's layers; only 1 is there.
  int32_t tensor_parallel_size = 1;
  int32_t tensor_parallel_rank = 0;
  // What a sequence computes does not depend, bit for bit, on what shares its
  // batch: attention in its batch-invariant mode, and one cuBLASLt algorithm,
  // without split sums, for every number of tokens.
  bool batch_invariant = false;
  bool cuda_graphs = true;
  // Linear layers of at most 64 tokens by a kernel of this repository, where
  // the GPU is a Hopper and batch_invariant is off.
  bool stream_weights = true;
  // Time the best few algorithms of each linear layer and keep the fastest;
  // else the one that cuBLASLt names first.
  bool tune_linear_layers = true;
  // What another decoder of this shape was tuned to (LinearChoicesText), to
  // be taken where the cuBLASLt is of the same version. Empty: all is tuned.
  std::string linear_choices;

  bool operator==(const DecoderOptions&) const = default;
};

// InvalidArgument names the option that makes no sense; Unimplemented for a
// tensor_parallel_size other than 1.
absl::Status ValidateDecoderOptions(const DecoderOptions& options);

// Batch sizes for which graphs are captured: 1, 2, 4, the multiples of 8 up to
// 64, of 16 up to 256, of 32 above, and max_num_seqs.
std::vector<int32_t> GraphBatchSizes(int32_t max_num_seqs);

}  // namespace interleave::sim

#endif  // SIM_KERNEL_EXECUTOR_DECODER_OPTIONS_H_
