// LinearChoices: which cuBLASLt algorithms a decoder's linear layers were tuned
// to, as text: a profile keeps them, so that later runs use the kernels that it
// measured.
//
//   cublas_lt_version,layer,tokens,algorithm
//   130200,gate_up,448,0000000000000042...
//
// An algorithm is what cuBLASLt hands out, 64 bytes that only the same version
// understands, in hex.

#ifndef SIM_KERNEL_EXECUTOR_LINEAR_CHOICES_H_
#define SIM_KERNEL_EXECUTOR_LINEAR_CHOICES_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace interleave::sim {

// cublasLtMatmulAlgo_t's words.
using LinearAlgorithm = std::array<uint64_t, 8>;

struct LinearChoices {
  int64_t cublas_lt_version = 0;
  // By layer, and by the most tokens that an algorithm is for.
  std::map<std::string, std::map<int64_t, LinearAlgorithm>> layers;

  bool operator==(const LinearChoices&) const = default;
};

std::string FormatLinearChoices(const LinearChoices& choices);

// InvalidArgument "source:line: what; remedy".
absl::StatusOr<LinearChoices> ParseLinearChoices(absl::string_view text,
                                                 absl::string_view source);

}  // namespace interleave::sim

#endif  // SIM_KERNEL_EXECUTOR_LINEAR_CHOICES_H_
