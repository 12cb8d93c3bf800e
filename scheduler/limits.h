// Limits: what a replica may have in flight, as server operators set it.

#ifndef SCHEDULER_LIMITS_H_
#define SCHEDULER_LIMITS_H_

#include <cstdint>

namespace interleave::scheduler {

struct Limits {
  // Requests that may be running (prefilling or decoding) at a time.
  int32_t max_num_seqs = 256;
  // Tokens that one iteration may compute, for policies that cut prompts into
  // chunks; see Policy::TokenBudget.
  int32_t max_num_batched_tokens = 2048;
  // Prompt and generated tokens of one request; longer ones are rejected.
  int32_t max_model_len = 131072;
};

}  // namespace interleave::scheduler

#endif  // SCHEDULER_LIMITS_H_
