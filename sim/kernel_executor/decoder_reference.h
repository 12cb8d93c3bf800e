// The decoder's arithmetic in double precision on the CPU, one sequence at a
// time, every token anew: the oracle of the decoder's tests.

#ifndef SIM_KERNEL_EXECUTOR_DECODER_REFERENCE_H_
#define SIM_KERNEL_EXECUTOR_DECODER_REFERENCE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "sim/kernel_executor/decoder.h"
#include "sim/kernel_executor/decoder_options.h"

namespace interleave::sim {

struct ReferenceModel {
  DecoderShape shape;
  std::vector<Decoder::LayerWeights> layers;
  Decoder::OuterWeights outer;
};

// Logits after the last of the tokens.
std::vector<double> ReferenceLogits(const ReferenceModel& model,
                                    absl::Span<const int32_t> tokens);

}  // namespace interleave::sim

#endif  // SIM_KERNEL_EXECUTOR_DECODER_REFERENCE_H_
