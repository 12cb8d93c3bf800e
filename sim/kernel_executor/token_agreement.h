// How far two runs on kernels generated the same tokens, from their tokens.csv.

#ifndef SIM_KERNEL_EXECUTOR_TOKEN_AGREEMENT_H_
#define SIM_KERNEL_EXECUTOR_TOKEN_AGREEMENT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace interleave::sim {

struct TokenAgreement {
  // That both runs completed, and how many of them have the same tokens.
  int64_t requests = 0;
  int64_t same = 0;
  // Tokens of those requests, and how many come before the first one that
  // differs; what follows that one has another history.
  int64_t tokens = 0;
  int64_t tokens_before_difference = 0;
  // Over the first differing steps, by how much the logit of the token that was
  // chosen passed the next best one's, the larger of both runs: rounding can
  // only turn a small gap round.
  double mean_gap = 0;
  double largest_gap = 0;
};

// The names are for messages. InvalidArgument says what is wrong with a file,
// and where.
absl::StatusOr<TokenAgreement> CompareTokens(absl::string_view a,
                                             absl::string_view a_name,
                                             absl::string_view b,
                                             absl::string_view b_name);

}  // namespace interleave::sim

#endif  // SIM_KERNEL_EXECUTOR_TOKEN_AGREEMENT_H_
