// Decodes first, then prompts that share the tokens left, with the decisions
// about memory and sharing as options: the capacity schedulers and the
// micro-batch scheduler of TensorRT-LLM, and what can be made of their parts.

#ifndef SCHEDULER_POLICIES_CHUNKED_CONTEXT_H_
#define SCHEDULER_POLICIES_CHUNKED_CONTEXT_H_

#include <cstdint>
#include <vector>

#include "scheduler/engine_view.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/limits.h"
#include "scheduler/policies/decode_all.h"
#include "scheduler/policies/policy_options.pb.h"
#include "scheduler/policies/room.h"
#include "scheduler/policies/token_allocation.h"
#include "scheduler/policy.h"
#include "scheduler/request.h"
#include "scheduler/request_spec.h"

namespace interleave::scheduler {

class ChunkedContext : public Policy {
 public:
  struct Options {
    // Memory.  With kCompletion nobody is ever preempted, else those admitted
    // last are when blocks run short.
    Reservation reservation = Reservation::kPrompt;
    double watermark = 0;
    // Token allocation.
    Chunking chunking = FIRST_COME_FIRST_SERVED;
    // 0: the block size.
    int64_t chunk_unit = 0;
    // Of one prompt in an iteration; 0: no limit.
    int64_t max_context_tokens = 0;
    // Order.
    bool by_priority = false;
  };

  explicit ChunkedContext(const Options& options) : options_(options) {}

  void Plan(const EngineView& view, IterationPlan& plan) override;
  int64_t WaitingKey(const RequestSpec& spec) const override {
    return options_.by_priority ? spec.priority : 0;
  }
  int64_t TokenBudget(const Limits& limits) const override;

 private:
  struct Decodes {
    int64_t planned = 0;
    Preempted preempted;
  };

  Decodes PlanDecodes(const EngineView& view, IterationPlan& plan,
                      Room& room) const;
  ShareLimits LimitsOfPrompts(const EngineView& view, int64_t decodes) const;
  // Adds the first `count` of the prompts under way.
  void CollectPrefilling(const EngineView& view, const ShareLimits& limits,
                         int64_t count);
  // Adds waiting requests that may be admitted, no more than can get tokens.
  void CollectWaiting(const EngineView& view, const ShareLimits& limits,
                      Room& room);
  void Add(const Request& request, int64_t remaining,
           const ShareLimits& limits);
  void Share(const EngineView& view, const ShareLimits& limits);
  void ShareWhole(const EngineView& view, int64_t capacity);

  const Options options_;
  // Of the call in progress; a member to keep its memory.
  std::vector<PromptShare> shares_;
  // What the shares take of the capacity at least, before it is exhausted.
  int64_t wanted_ = 0;
};

}  // namespace interleave::scheduler

#endif  // SCHEDULER_POLICIES_CHUNKED_CONTEXT_H_
