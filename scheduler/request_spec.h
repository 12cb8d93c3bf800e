// RequestSpec: one request as its client sends it, before anything has happened
// to it.

#ifndef SCHEDULER_REQUEST_SPEC_H_
#define SCHEDULER_REQUEST_SPEC_H_

#include <cstdint>
#include <vector>

#include "base/sim_time.h"

namespace interleave::scheduler {

// A run of prompt tokens whose content has a name: equal ids mean equal tokens,
// wherever they appear.  What follows the named segments of a prompt is unique
// to its request.
struct PromptSegment {
  int64_t content_id = 0;
  int32_t num_tokens = 0;

  friend bool operator==(const PromptSegment&, const PromptSegment&) = default;
};

// Service-level objective of one request; SimDuration::Max() means none.
struct Slo {
  // Time to first token.
  SimDuration ttft = SimDuration::Max();
  // Time between tokens: no gap of the request may exceed it.
  SimDuration tbt = SimDuration::Max();

  friend bool operator==(const Slo&, const Slo&) = default;
};

struct RequestSpec {
  // 0, 1, 2, ... in order of arrival; also the tie-breaker everywhere.
  int64_t id = 0;
  SimTime arrival;
  // Tokens of the prompt, >= 1.
  int32_t prompt_tokens = 0;
  // Tokens that will be generated, >= 1.  What a server cannot know: policies
  // see `max_output_tokens`, or a predictor's guess.
  int32_t output_tokens = 0;
  // The client's limit on generated tokens, >= output_tokens.
  int32_t max_output_tokens = 0;
  // Who asks, for fairness; tenants are numbered from 0.
  int32_t tenant = 0;
  // Smaller is more urgent, as in vLLM.
  int32_t priority = 0;
  Slo slo;
  // The named segments the prompt starts with; their tokens sum to at most
  // prompt_tokens.  Empty: the whole prompt is unique.
  std::vector<PromptSegment> segments;

  friend bool operator==(const RequestSpec&, const RequestSpec&) = default;
};

}  // namespace interleave::scheduler

#endif  // SCHEDULER_REQUEST_SPEC_H_
