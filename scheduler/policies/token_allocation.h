// How the prompts of an iteration share the tokens there are for them.

#ifndef SCHEDULER_POLICIES_TOKEN_ALLOCATION_H_
#define SCHEDULER_POLICIES_TOKEN_ALLOCATION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/request.h"

namespace interleave::scheduler {

// A chunk that shrinks while its prompt advances, after the dynamic chunk of
// Sarathi-Serve: sizes evenly spaced from the largest to the smallest, each a
// multiple of kUnit, and as many equal stretches of the prompt.
class ShrinkingChunk {
 public:
  static constexpr int64_t kUnit = 32;

  // REQUIRES: largest >= smallest >= kUnit; over_tokens >= stages >= 1.
  ShrinkingChunk(int64_t largest, int64_t smallest, int64_t stages,
                 int64_t over_tokens);

  // Size of the chunk that starts after `computed` tokens.
  int64_t At(int64_t computed) const {
    const size_t stage = static_cast<size_t>(computed / tokens_per_stage_);
    return stage < sizes_.size() ? sizes_[stage] : sizes_.back();
  }

 private:
  int64_t tokens_per_stage_;
  std::vector<int64_t> sizes_;
};

// A prompt that competes for tokens.
struct PromptShare {
  const Request* request = nullptr;
  // Tokens it has left to compute.
  int64_t remaining = 0;
  // Tokens it is given; written by the functions below.
  int64_t tokens = 0;
};

// What bounds the shares.
struct ShareLimits {
  // Tokens for all prompts together.
  int64_t capacity = 0;
  // Shares that do not end a prompt are multiples of this, >= 1.
  int64_t unit = 1;
  // The most tokens of one prompt; 0: no limit.
  int64_t max_tokens = 0;
};

// Each prompt in turn is given all it can take, rounded down to a multiple of
// the unit where that does not end it.
void ShareFirstComeFirstServed(absl::Span<PromptShare> shares,
                               const ShareLimits& limits);

// The prompts are given a unit each, round after round, until nobody's next
// unit (or what is left of its prompt) fits.  If all prompts fit, all are given
// everything.
void ShareEqually(absl::Span<PromptShare> shares, const ShareLimits& limits);

}  // namespace interleave::scheduler

#endif  // SCHEDULER_POLICIES_TOKEN_ALLOCATION_H_
