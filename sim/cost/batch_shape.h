// BatchShape: what one iteration computes, as far as its duration depends on
// it.  The engine keeps these sums up to date as requests come and go, so that
// a cost model never visits a running decode.

#ifndef SIM_COST_BATCH_SHAPE_H_
#define SIM_COST_BATCH_SHAPE_H_

#include <cstdint>

#include "absl/types/span.h"

namespace interleave::sim {

// A piece of one request's prompt.
struct PrefillChunk {
  // Tokens computed in this iteration, >= 1.
  int32_t query_tokens = 0;
  // Tokens of the request that are in the KV cache before this iteration.
  int32_t context_tokens = 0;
};

// Pairs of a query and a key that it sees, in causal attention of a chunk; half
// a pair for a query and itself.
inline double QueryKeyPairs(double queries, double context) {
  return queries * context + queries * queries * 0.5;
}

// All sequences that compute exactly one token, taken together.  KV lengths
// count the tokens in the cache before the iteration, per sequence; the token
// computed now attends to that many plus itself.
struct DecodeGroup {
  int64_t count = 0;
  // Sum and sum of squares of the KV lengths; the largest of them.
  int64_t kv_tokens = 0;
  int64_t kv_tokens_squared = 0;
  int64_t kv_tokens_max = 0;

  // One more sequence, with so many tokens in the cache.
  void Add(int64_t kv) {
    ++count;
    kv_tokens += kv;
    kv_tokens_squared += kv * kv;
    if (kv > kv_tokens_max) kv_tokens_max = kv;
  }

  // The same sequences one iteration later.
  void Advance() {
    kv_tokens_squared += 2 * kv_tokens + count;
    kv_tokens += count;
    ++kv_tokens_max;
  }
};

struct BatchShape {
  absl::Span<const PrefillChunk> prefill;
  // Sum of prefill[].query_tokens.
  int64_t prefill_tokens = 0;
  DecodeGroup decode;
  // Blocks copied between device and host before the iteration (swap tier).
  int64_t swapped_out_blocks = 0;
  int64_t swapped_in_blocks = 0;

  int64_t num_sequences() const {
    return static_cast<int64_t>(prefill.size()) + decode.count;
  }
  int64_t num_tokens() const { return prefill_tokens + decode.count; }
  // num_tokens() where a chunk has two tokens and more; 0 where all decode.
  int64_t tokens_beside_prefill() const {
    return prefill_tokens > static_cast<int64_t>(prefill.size()) ? num_tokens()
                                                                 : 0;
  }
};

}  // namespace interleave::sim

#endif  // SIM_COST_BATCH_SHAPE_H_
