// Where everything of a decoder lies in its device memory, and how large it is.

#ifndef SIM_KERNEL_EXECUTOR_DECODER_LAYOUT_H_
#define SIM_KERNEL_EXECUTOR_DECODER_LAYOUT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/arena.h"
#include "base/ceil_div.h"
#include "sim/kernel_executor/decoder_options.h"
#include "sim/kernel_executor/stream_linear.h"
#include "sim/kernel_executor/stream_split.h"

namespace interleave::sim {

inline constexpr int64_t kBf16Bytes = 2;
// For cuBLASLt.
inline constexpr int64_t kWorkspaceBytes = int64_t{64} << 20;

// Sizes that follow from the options.
struct DecoderSizes {
  explicit DecoderSizes(const DecoderOptions& options)
      : hidden(options.shape.hidden_size),
        q(int64_t{options.shape.num_heads} * options.shape.head_dim),
        kv(int64_t{options.shape.num_kv_heads} * options.shape.head_dim),
        intermediate(options.shape.intermediate_size),
        vocab(options.shape.vocab_size),
        tokens(options.max_num_batched_tokens),
        seqs(options.max_num_seqs),
        table(CeilDiv(options.max_model_len, options.block_size)),
        positions(table * options.block_size) {}

  int64_t qkv() const { return q + 2 * kv; }

  int64_t hidden;
  int64_t q;
  int64_t kv;
  int64_t intermediate;
  int64_t vocab;
  int64_t tokens;
  int64_t seqs;
  int64_t table;      // blocks of the longest sequence
  int64_t positions;  // tokens in them
};

// The linear layers of a decoder's layer.
enum Linear : size_t { kQkv, kOutput, kGateUp, kDown, kNumLinear };

struct LinearShape {
  int64_t inputs;
  int64_t outputs;
};
std::array<LinearShape, kNumLinear> LinearShapes(const DecoderSizes& sizes);

// How few tokens' linear layers are split among thread blocks; nothing where
// cuBLASLt computes them.
using StreamSplits = std::optional<std::array<StreamSplit, kNumLinear>>;

// On a device of this major compute capability with so many multiprocessors.
StreamSplits SplitStreams(const DecoderOptions& options, int major,
                          int multiprocessors);

struct LayerPointers {
  void* qkv;
  void* output;
  void* gate_up;  // rows of gate and up alternate by kGateUpRows
  void* down;
  void* attention_norm;
  void* mlp_norm;
};

struct WeightPointers {
  std::vector<LayerPointers> layers;
  void* embedding;
  void* lm_head;
  void* final_norm;
};

WeightPointers CarveWeights(const DecoderOptions& options, Arena& arena);

// Everything on the device but weights and KV cache.
struct DecoderBuffers {
  void* residual;
  void* normed;
  void* qkv;
  void* attention;
  void* delta;
  void* gate_up;
  void* activated;
  void* last;     // normed last tokens
  float* logits;  // [seqs, vocab]
  void* partials;
  void* cos_sin;
  int32_t* packed;
  int32_t* block_table;
  int32_t* positions;
  int32_t* slots;
  void* workspace;
  void* plan;
  float* stream_partials;
  GateUpScratch gate_up_scratch;
};

// plan_bytes: what attention's plan asks for.
DecoderBuffers CarveBuffers(const DecoderOptions& options, int64_t plan_bytes,
                            const StreamSplits& streams, Arena& arena);

// Numbers of a packed batch, at most.
int64_t MostPacked(const DecoderSizes& sizes);

// Bytes of a KV block, in all layers.
int64_t KvBlockBytes(const DecoderOptions& options);

}  // namespace interleave::sim

#endif  // SIM_KERNEL_EXECUTOR_DECODER_LAYOUT_H_
