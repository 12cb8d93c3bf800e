// Policy: decides what the next iteration computes.
//
// The policy proposes, the engine validates the proposal and carries out all of
// it or none, the cache owns the blocks, the executor runs or costs the batch.
//
// A policy is a deterministic function of its options and of the calls it has
// received: no clock, no random source, no static state.  It is called from one
// thread.
//
//   class MyPolicy final : public Policy {
//    public:
//     void Plan(const EngineView& view, IterationPlan& plan) override {
//       plan.DecodeAll();
//       for (const Request& request : view.waiting()) { ... plan.Run(...) ... }
//     }
//   };
//   REGISTER_POLICY("my_policy", "what it does, in a line", &MyPolicy::Create);

#ifndef SCHEDULER_POLICY_H_
#define SCHEDULER_POLICY_H_

#include <cstdint>

#include "scheduler/engine_view.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/limits.h"
#include "scheduler/request.h"

namespace interleave::scheduler {

class Policy {
 public:
  virtual ~Policy() = default;

  // Writes the next iteration's plan into `plan`, which comes empty.  A plan
  // left empty means: nothing to do before the next arrival.
  // `view` is valid during the call only; requests of it until they are done.
  virtual void Plan(const EngineView& view, IterationPlan& plan) = 0;

  // Notices, each called when the engine's state has changed already.
  virtual void OnArrival(const Request& request) {}
  virtual void OnPreempted(const Request& request) {}
  // Completed or rejected; the request is gone afterwards.
  virtual void OnDone(const Request& request) {}

  // The waiting queue is kept in order of (WaitingKey, id), smallest first; a
  // preempted request takes its old place.  Read once, on arrival.
  virtual int64_t WaitingKey(const RequestSpec& spec) const { return 0; }

  // The most tokens this policy ever puts into one iteration; the engine
  // refuses more.  Policies that never cut a prompt return what the longest
  // prompts need.
  virtual int64_t TokenBudget(const Limits& limits) const {
    return limits.max_num_batched_tokens;
  }
};

}  // namespace interleave::scheduler

#endif  // SCHEDULER_POLICY_H_
