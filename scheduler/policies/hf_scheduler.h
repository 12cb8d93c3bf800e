// The schedulers of Hugging Face transformers' continuous batching.  Both go
// over decodes, prompts under way and waiting requests, in an order of their
// own, and give each what the budget and the free blocks allow; one that finds
// no blocks is passed over, so later ones may overtake it.
//
// When nobody can run, one request gives up its blocks, and nobody is admitted
// until another one has ended.

#ifndef SCHEDULER_POLICIES_HF_SCHEDULER_H_
#define SCHEDULER_POLICIES_HF_SCHEDULER_H_

#include <cstdint>

#include "scheduler/engine_view.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/policies/room.h"
#include "scheduler/policy.h"
#include "scheduler/request.h"

namespace interleave::scheduler {

class HfScheduler : public Policy {
 public:
  struct Options {
    // Prompts under way before decodes, or behind them.
    bool prompts_first = false;
    // Share of the blocks below which prompts wait.
    double safety_margin = 0;
    // The one that gives up its blocks: that with the fewest tokens in the
    // cache (the latest on ties), or the oldest.
    bool evict_shortest = false;
    // Waiting requests that may be passed over in an iteration.
    int64_t max_overtaken = 0;
  };

  explicit HfScheduler(const Options& options) : options_(options) {}

  void Plan(const EngineView& view, IterationPlan& plan) override;
  void OnDone(const Request& request) override { admits_ = true; }

 private:
  void PlanDecodes(const EngineView& view, IterationPlan& plan, Room& room);
  void PlanPrompts(const EngineView& view, IterationPlan& plan, Room& room);
  void AdmitWaiting(const EngineView& view, IterationPlan& plan, Room& room);
  void Evict(const EngineView& view, IterationPlan& plan);
  // Whether prompts have to wait for more blocks to be free.
  bool HeldBack(const EngineView& view, const Room& room) const;

  const Options options_;
  // False from an eviction to the next end of a request.
  bool admits_ = true;
  // Tokens left, and tokens planned, in the iteration being planned.
  int64_t budget_ = 0;
  int64_t planned_ = 0;
};

}  // namespace interleave::scheduler

#endif  // SCHEDULER_POLICIES_HF_SCHEDULER_H_
