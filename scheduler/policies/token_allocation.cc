#include "scheduler/policies/token_allocation.h"

#include <algorithm>
#include <cstdint>

#include "absl/types/span.h"
#include "base/ceil_div.h"
#include "base/check.h"

namespace interleave::scheduler {

ShrinkingChunk::ShrinkingChunk(int64_t largest, int64_t smallest,
                               int64_t stages, int64_t over_tokens)
    : tokens_per_stage_(CeilDiv(over_tokens, stages)) {
  CHECK(stages >= 1 && smallest >= kUnit && largest >= smallest);
  CHECK(over_tokens >= stages);
  for (int64_t stage = 0; stage < stages; ++stage) {
    // (largest - smallest) * stage / (stages - 1) below the largest, to the
    // nearest unit.
    const int64_t steps = std::max<int64_t>(stages - 1, 1);
    const int64_t times_steps = largest * steps - (largest - smallest) * stage;
    const int64_t unit = kUnit * steps;
    sizes_.push_back((times_steps + unit / 2) / unit * kUnit);
  }
}

void ShareFirstComeFirstServed(absl::Span<PromptShare> shares,
                               const ShareLimits& limits) {
  int64_t left = limits.capacity;
  for (PromptShare& share : shares) {
    int64_t tokens = std::min(share.remaining, left);
    if (limits.max_tokens > 0) tokens = std::min(tokens, limits.max_tokens);
    if (tokens < share.remaining) tokens -= tokens % limits.unit;
    share.tokens = tokens;
    left -= tokens;
  }
}

void ShareEqually(absl::Span<PromptShare> shares, const ShareLimits& limits) {
  int64_t left = limits.capacity;
  for (PromptShare& share : shares) share.tokens = 0;
  for (bool progress = true; progress && left > 0;) {
    progress = false;
    for (PromptShare& share : shares) {
      const int64_t more =
          std::min(limits.unit, share.remaining - share.tokens);
      if (more == 0 || more > left) continue;
      if (limits.max_tokens > 0 && share.tokens + more > limits.max_tokens) {
        continue;
      }
      share.tokens += more;
      left -= more;
      progress = true;
    }
  }
}

}  // namespace interleave::scheduler
