// MeasuredBatch: one iteration that a profiler times.

#ifndef SIM_PROFILING_MEASURED_BATCH_H_
#define SIM_PROFILING_MEASURED_BATCH_H_

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "sim/cost/batch_shape.h"
#include "sim/kernel_executor/batch_runner.h"

namespace interleave::sim {

struct MeasuredBatch {
  std::vector<PrefillChunk> chunks;
  // Cached tokens of each sequence that decodes.
  std::vector<int32_t> decode_kv;
  // Above 0: decode_kv are one draw of TypicalLengths with this mean, and other
  // draws are the same batch.
  double typical_mean = 0;
  BatchPart part = BatchPart::kAll;
  // The first so many layers alone, and what is outside of layers; 0: all.
  int32_t layers = 0;

  int64_t num_tokens() const;
  int64_t num_sequences() const;
  // What a cost model is asked; refers to `chunks`.
  BatchShape shape() const;
};

// A size that was computed, as a batch has it: the nearest whole number.
inline int32_t Whole(double size) {
  return static_cast<int32_t>(std::lround(size));
}

// `count` decodes of one length.
MeasuredBatch Decodes(int32_t count, int32_t kv);

// One chunk, and `count` decodes of one length beside it.
MeasuredBatch Mixed(PrefillChunk chunk, int32_t count, int32_t kv);

// What a cost model is asked; refers to `chunks`.
BatchShape ShapeOf(absl::Span<const PrefillChunk> chunks,
                   const DecodeGroup& decode);

// "512@1024+16@0": tokens and context; "-" for none.
std::string KeyOf(absl::Span<const PrefillChunk> chunks);

// A name without commas, equal for equal batches: "512@1024+16@0|64x2048|all",
// and "|linear" without attention, "|attention" without the rest; "64~2048" for
// typical lengths, "-" for no chunk and for no decode; a few layers are named
// at the end: "|all of 2".
std::string KeyOf(const MeasuredBatch& batch);

}  // namespace interleave::sim

#endif  // SIM_PROFILING_MEASURED_BATCH_H_
