// Decoder: a dense decoder-only transformer on one GPU, in bf16, with seeded
// random weights.
//
//   DecoderOptions options;
//   ASSIGN_OR_RETURN(options.shape, DecoderShapeOf(model));
//   options.num_blocks = 4096;
//   ASSIGN_OR_RETURN(std::unique_ptr<Decoder> decoder,
//                    Decoder::Create(options));
//   DecoderOutput output;
//   ASSIGN_OR_RETURN(DecoderTiming timing, decoder->Run(batch, &output));
//
// An iteration: embedding; in each layer RMSNorm, QKV projection, rotary
// embedding and append to the paged cache, attention, output projection,
// RMSNorm, gate and up, SiLU(gate) x up, down; at the end a norm, the LM head
// on the last token of each sequence that samples, and the greedy choice.
// Linear layers are cuBLASLt's, the rest are kernels of this repository. A
// batch of decodes replays a CUDA graph captured for the next larger batch
// size; any other batch is launched kernel by kernel.

#ifndef SIM_KERNEL_EXECUTOR_DECODER_H_
#define SIM_KERNEL_EXECUTOR_DECODER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/sim_time.h"
#include "sim/kernel_executor/batch_runner.h"
#include "sim/kernel_executor/decoder_options.h"

namespace interleave::sim {

// What Create allocates, in bytes.
struct DecoderMemory {
  int64_t weights = 0;
  int64_t kv_cache = 0;
  // Activations, logits, workspaces, tables.
  int64_t other = 0;
};

class Decoder : public BatchRunner {
 public:
  // Takes some seconds: it makes the weights, chooses algorithms and captures
  // the graphs. FailedPrecondition: there is no GPU, or one that is too old, or
  // no cuBLASLt. ResourceExhausted: the model does not fit; the message has the
  // bytes needed and those free. InvalidArgument names a bad option. Whatever
  // was allocated is freed then.
  static absl::StatusOr<std::unique_ptr<Decoder>> Create(
      const DecoderOptions& options);

  // Device memory that a decoder of these options takes with num_blocks blocks.
  static absl::StatusOr<DecoderMemory> MemoryOf(const DecoderOptions& options);

  // BatchRunner: Run, vocab_size, block_size, num_blocks, Description.

  virtual const DecoderOptions& options() const = 0;
  virtual const DecoderMemory& memory() const = 0;
  // Bytes of weights that every iteration reads: the embedding table excluded,
  // the LM head included.
  virtual int64_t weight_bytes_read() const = 0;
  // "NVIDIA H200", "580.159.04", "13.0".
  virtual std::string device_name() const = 0;
  virtual std::string driver_version() const = 0;
  virtual std::string cuda_version() const = 0;
  // Batch sizes that have a graph, ascending; a batch of decodes is padded to
  // the next one. Empty without graphs.
  virtual absl::Span<const int32_t> graph_batch_sizes() const = 0;

  // What its linear layers were tuned to; see linear_choices.h.
  virtual std::string LinearChoicesText() const = 0;

  // Logits of the last Run's sampling sequences, [samples, vocab_size].
  virtual absl::StatusOr<std::vector<float>> LastLogits() = 0;
  // Weights as floats, for a reference on the CPU.
  struct LayerWeights {
    // [num_heads + 2 num_kv_heads, head_dim, hidden]: Q, K, V heads.
    std::vector<float> qkv;
    std::vector<float> output;   // [hidden, num_heads x head_dim]
    std::vector<float> gate_up;  // [2 x intermediate, hidden]: gate, then up
    std::vector<float> down;     // [hidden, intermediate]
    std::vector<float> attention_norm;  // [hidden]
    std::vector<float> mlp_norm;        // [hidden]
  };
  virtual absl::StatusOr<LayerWeights> ReadLayer(int32_t layer) = 0;
  struct OuterWeights {
    std::vector<float> embedding;   // [vocab, hidden]
    std::vector<float> lm_head;     // [vocab, hidden]
    std::vector<float> final_norm;  // [hidden]
  };
  virtual absl::StatusOr<OuterWeights> ReadOuter() = 0;
};

}  // namespace interleave::sim

#endif  // SIM_KERNEL_EXECUTOR_DECODER_H_
