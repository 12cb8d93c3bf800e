// What a fake runner samples.

#ifndef SIM_TESTING_FAKE_SAMPLES_H_
#define SIM_TESTING_FAKE_SAMPLES_H_

#include <algorithm>
#include <cstddef>

#include "sim/kernel_executor/batch_runner.h"

namespace interleave::sim {

// One and the same token for each sequence that samples.
inline void SampleFakes(const DecoderBatch& batch, DecoderOutput* output) {
  const auto samples = static_cast<size_t>(
      std::count_if(batch.sequences.begin(), batch.sequences.end(),
                    [](const DecoderSequence& s) { return s.sample; }));
  output->tokens.assign(samples, 7);
  output->logit_gaps.assign(samples, 1);
}

}  // namespace interleave::sim

#endif  // SIM_TESTING_FAKE_SAMPLES_H_
