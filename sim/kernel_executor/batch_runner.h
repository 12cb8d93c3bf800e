// BatchRunner: what runs an iteration's batch and tells how long it took. The
// decoder on a GPU is one; tests have others.

#ifndef SIM_KERNEL_EXECUTOR_BATCH_RUNNER_H_
#define SIM_KERNEL_EXECUTOR_BATCH_RUNNER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/sim_time.h"

namespace interleave::sim {

// What one sequence computes in an iteration.
struct DecoderSequence {
  // Tokens computed now, >= 1: a prompt chunk, or one for a decode.
  int32_t num_tokens = 0;
  // Tokens whose keys and values are in the cache before.
  int32_t cached_tokens = 0;
  // Whether a token is sampled after the last one.
  bool sample = true;
  // Ids of the KV blocks; the first
  // ceil((cached_tokens + num_tokens) / block_size) are read.
  absl::Span<const int32_t> blocks;
};

// What of an iteration is computed. What the rest would write is then whatever
// its buffers hold; without the rest nothing is sampled.
enum class BatchPart { kAll, kWithoutAttention, kAttention };

struct DecoderBatch {
  absl::Span<const DecoderSequence> sequences;
  // The tokens of all sequences, one sequence after the other; each in
  // [0, vocab_size).
  absl::Span<const int32_t> tokens;
  // For profiling: compute a part only; launch kernel by kernel what a graph
  // could replay; or compute the first so many layers only, and what is outside
  // of layers (0: all).
  BatchPart part = BatchPart::kAll;
  bool skip_graph = false;
  int32_t layers = 0;
};

struct DecoderTiming {
  // From the first kernel's start to the last one's end.
  SimDuration device;
  // What passed beside that in Run: packing, uploading, launching, and hearing
  // that the device is done.
  SimDuration host;
};

// One entry for each sequence that samples, in their order.
struct DecoderOutput {
  std::vector<int32_t> tokens;
  // By how much the sampled token's logit passes the next best one's.
  std::vector<float> logit_gaps;
};

class BatchRunner {
 public:
  virtual ~BatchRunner() = default;

  // Runs one iteration and waits for its end. InvalidArgument names what is
  // wrong with the batch, and nothing has run then.
  virtual absl::StatusOr<DecoderTiming> Run(const DecoderBatch& batch,
                                            DecoderOutput* output) = 0;

  virtual int32_t vocab_size() const = 0;
  virtual int32_t block_size() const = 0;
  virtual int64_t num_blocks() const = 0;
  // One line for a person: the card, the model's memory, the KV cache's.
  virtual std::string Description() const = 0;
};

}  // namespace interleave::sim

#endif  // SIM_KERNEL_EXECUTOR_BATCH_RUNNER_H_
