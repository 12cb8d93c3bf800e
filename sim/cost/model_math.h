// What follows from a model's shape: parameters, bytes, KV blocks.

#ifndef SIM_COST_MODEL_MATH_H_
#define SIM_COST_MODEL_MATH_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sim/cost/device.pb.h"
#include "sim/cost/model.pb.h"

namespace interleave::sim {

int64_t BytesPerNumber(NumberFormat format);

// All weights: embedding, LM head (unless tied), norms and routers included.
int64_t ParameterCount(const ModelSpec& model);

// Bytes of all weights in weight_format; embedding, LM head, norms and routers
// stay in 16 bits, as quantised checkpoints keep them.
int64_t WeightBytes(const ModelSpec& model);

// Keys and values of one token over all layers and KV heads.
int64_t KvBytesPerToken(const ModelSpec& model);

// InvalidArgument unless heads, MLP and vocabulary can be divided among
// `degree` devices (KV heads are replicated where there are fewer).
absl::Status CheckTensorParallel(const ModelSpec& model, int degree);

// What one of `degree` tensor-parallel devices holds.
int64_t WeightBytesPerDevice(const ModelSpec& model, int degree);
int64_t KvBytesPerTokenPerDevice(const ModelSpec& model, int degree);

struct KvMemoryOptions {
  // The share of the device's memory that the engine takes.
  double gpu_memory_utilization = 0.9;
  int block_size = 16;
  int tensor_parallel = 1;
  // They size the activations that must fit beside weights and KV cache.
  int max_num_batched_tokens = 2048;
  int max_num_seqs = 256;
  // What the driver, libraries and captured graphs take.
  int64_t runtime_bytes = int64_t{512} << 20;
};

struct KvMemory {
  int64_t num_blocks = 0;
  int64_t block_bytes = 0;
  int64_t weight_bytes = 0;
  int64_t activation_bytes = 0;
  // One line of arithmetic for a person.
  std::string explanation;
};

// How many KV blocks fit one device:
//   (utilization x memory - weights - activations - runtime) / block bytes.
// Activations: the widest point of a layer for max_num_batched_tokens tokens
// (residual, norm, gate and up and their product, Q K V and the output), plus
// logits of max_num_seqs sequences in 32 bits twice (logits, probabilities).
// ResourceExhausted with the arithmetic where not even one block fits.
absl::StatusOr<KvMemory> DeriveKvMemory(const ModelSpec& model,
                                        const DeviceSpec& device,
                                        const KvMemoryOptions& options);

}  // namespace interleave::sim

#endif  // SIM_COST_MODEL_MATH_H_
