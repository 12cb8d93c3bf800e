// MeasuredBatch: one iteration that a profiler times.

#ifndef SIM_PROFILING_MEASURED_BATCH_H_
#define SIM_PROFILING_MEASURED_BATCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "sim/cost/batch_shape.h"

namespace interleave::sim {

struct MeasuredBatch {
  std::vector<PrefillChunk> chunks;
  // Cached tokens of each sequence that decodes.
  std::vector<int32_t> decode_kv;
  // Everything but attention.
  bool skip_attention = false;

  int64_t num_tokens() const;
  int64_t num_sequences() const;
  // What a cost model is asked; refers to `chunks`.
  BatchShape shape() const;
};

// `count` decodes of one length.
MeasuredBatch Decodes(int32_t count, int32_t kv);

// One chunk, and `count` decodes of one length beside it.
MeasuredBatch Mixed(PrefillChunk chunk, int32_t count, int32_t kv);

// A name without commas, equal for equal batches: "512@1024+16@0|64x2048|all",
// and "|linear" without attention; "-" for no chunk and for no decode.
std::string KeyOf(const MeasuredBatch& batch);

}  // namespace interleave::sim

#endif  // SIM_PROFILING_MEASURED_BATCH_H_
