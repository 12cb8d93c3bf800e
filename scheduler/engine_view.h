// EngineView: what a policy may see.  Everything is read-only and costs O(1)
// unless said otherwise.

#ifndef SCHEDULER_ENGINE_VIEW_H_
#define SCHEDULER_ENGINE_VIEW_H_

#include <cstdint>

#include "base/sim_time.h"
#include "scheduler/engine_state.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/limits.h"
#include "scheduler/request.h"

namespace interleave::scheduler {

// Answers "what would this batch cost?".
class IterationPredictor {
 public:
  virtual ~IterationPredictor() = default;
  // Predicted duration, host overhead included; zero for a plan that computes
  // nothing.  O(pieces), and O(decodes) where decodes are listed one by one.
  virtual SimDuration Predict(const IterationPlan& plan) const = 0;
};

class EngineView {
 public:
  // Both must outlive the view; `predictor` may be nullptr: no predictions.
  EngineView(const EngineState& state, SimTime now,
             const IterationPredictor* predictor)
      : state_(state), now_(now), predictor_(predictor) {}

  SimTime now() const { return now_; }
  const Limits& limits() const { return state_.limits(); }

  // In order of (Policy::WaitingKey, id).
  const RequestQueue& waiting() const { return state_.waiting(); }
  // In order of admission.
  const RequestQueue& running() const { return state_.running(); }
  // Running requests whose prompt is not computed yet, in order of admission.
  const PhaseList& prefilling() const { return state_.prefilling(); }
  // In the order in which they were swapped out.
  const RequestQueue& swapped() const { return state_.swapped(); }

  int64_t num_waiting() const { return state_.waiting().size(); }
  int64_t num_running() const { return state_.running().size(); }
  int64_t num_decoding() const { return state_.num_decoding(); }

  // ---- The cache.  This is the only authority on capacity. ----

  int64_t block_size() const { return state_.cache().block_size(); }
  int64_t num_blocks() const { return state_.cache().num_blocks(); }
  // Blocks that can be had now, evictable cached ones included.
  int64_t free_blocks() const { return state_.cache().free_blocks(); }
  // Blocks that a request holds; what a preemption frees is at most that
  // (blocks shared with others stay).
  int64_t BlocksHeld(const Request& request) const {
    return state_.cache().num_blocks_of(request.sequence());
  }
  int64_t BlocksFreedBy(const Request& request) const {
    return state_.cache().BlocksFreedBy(request.sequence());
  }

  // Blocks that IterationPlan::DecodeAll takes now.
  int64_t DecodeAllNeed() const { return state_.DecodeAllNeed(); }
  // Whether it takes one for this request.
  bool DecodeNeedsBlock(const Request& request) const {
    return state_.DecodeNeedsBlock(request);
  }
  // Blocks that computing `num_tokens` more takes, of a running request.
  int64_t GrowthNeed(const Request& request, int64_t num_tokens) const {
    return state_.GrowthNeed(request, num_tokens);
  }
  // Blocks that Run(request, num_tokens, reservation) takes, of a waiting
  // request.  O(blocks of the prompt) after the prefix cache has changed.
  int64_t AdmissionNeed(const Request& request, int64_t num_tokens,
                        Reservation reservation) const {
    return state_.AdmissionNeed(request, num_tokens, reservation);
  }
  int64_t SwapInNeed(const Request& request) const {
    return state_.SwapInNeed(request);
  }
  int64_t free_host_blocks() const { return state_.cache().free_host_blocks(); }

  // Tokens to compute before a request's next token, those that the prefix
  // cache holds excluded.
  int64_t TokensToCompute(const Request& request) const {
    return request.phase() == Phase::kWaiting
               ? request.num_tokens() - state_.PrefixHitTokens(request)
               : request.remaining();
  }
  int64_t PrefixHitTokens(const Request& request) const {
    return state_.PrefixHitTokens(request);
  }

  // ---- Cost ----

  bool can_predict() const { return predictor_ != nullptr; }
  // REQUIRES: can_predict().
  SimDuration Predict(const IterationPlan& plan) const {
    return predictor_->Predict(plan);
  }

 private:
  const EngineState& state_;
  const SimTime now_;
  const IterationPredictor* const predictor_;
};

}  // namespace interleave::scheduler

#endif  // SCHEDULER_ENGINE_VIEW_H_
