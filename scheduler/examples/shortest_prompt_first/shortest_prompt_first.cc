// Shortest prompt first: a policy in its own package, as one of yours would be.
// A waiting request's place in the queue is the length of its prompt; all else
// is as simple as it can be: all that run go on, whole prompts join them one at
// a time, and room for all that a request may generate is reserved, so that
// nobody is ever preempted.
//
// The mean time to first token falls; a long prompt waits while short ones
// come.

#include <cstdint>

#include "scheduler/engine_view.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/limits.h"
#include "scheduler/policies/parse_policy_options.h"
#include "scheduler/policies/room.h"
#include "scheduler/policy.h"
#include "scheduler/registry.h"
#include "scheduler/request.h"
#include "scheduler/request_spec.h"

namespace interleave::scheduler {
namespace {

class ShortestPromptFirst final : public Policy {
 public:
  int64_t WaitingKey(const RequestSpec& spec) const override {
    return spec.prompt_tokens;
  }

  int64_t TokenBudget(const Limits& limits) const override {
    return int64_t{limits.max_num_seqs} + limits.max_model_len;
  }

  void Plan(const EngineView& view, IterationPlan& plan) override {
    Room room(view);
    plan.DecodeAll();
    const Request* next = view.waiting().front();
    if (next == nullptr) {
      plan.set_repeat(Repeat::kUntilArrival);
      return;
    }
    const int64_t tokens = view.TokensToCompute(*next);
    if (room.TryAdmit(view, *next, tokens, Reservation::kCompletion,
                      /*watermark=*/0)) {
      plan.Run(*next, static_cast<int32_t>(tokens), Reservation::kCompletion);
    } else {
      // Whoever arrives with a shorter prompt may fit.
      plan.set_repeat(Repeat::kUntilArrival);
    }
  }
};

REGISTER_POLICY("shortest_prompt_first",
                "the waiting request with the shortest prompt is next",
                &CreateWithoutOptions<ShortestPromptFirst>);

}  // namespace
}  // namespace interleave::scheduler
