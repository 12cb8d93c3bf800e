// Batches as an engine that serves conversations makes them.

#ifndef SIM_PROFILING_RANDOM_BATCHES_H_
#define SIM_PROFILING_RANDOM_BATCHES_H_

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "sim/profiling/measured_batch.h"

namespace interleave::sim {

struct BatchLimits {
  int32_t max_tokens = 2048;
  int32_t max_context = 8192;
  int32_t max_sequences = 256;
  int32_t max_kv = 8192;
};

// `count` lengths, lognormal around a median, in [1, longest].
std::vector<int32_t> UnevenLengths(Rng& rng, int32_t count, double median,
                                   double sigma, int32_t longest);

// `count` lengths with the given mean, spread as a server's are: lognormal with
// a sigma of 0.5, none above four times the mean.  Always the same ones for the
// same draw.
std::vector<int32_t> TypicalLengths(int32_t count, double mean,
                                    uint64_t draw = 0);

// One of: decodes alone, prompts alone, prompts beside decodes.  Prompts are
// cut to what the limits leave; the first may go on after a context.
MeasuredBatch RandomBatch(Rng& rng, const BatchLimits& limits);

}  // namespace interleave::sim

#endif  // SIM_PROFILING_RANDOM_BATCHES_H_
