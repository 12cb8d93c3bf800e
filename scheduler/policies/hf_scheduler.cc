#include "scheduler/policies/hf_scheduler.h"

#include <algorithm>
#include <cstdint>

#include "scheduler/engine_view.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/policies/decode_all.h"
#include "scheduler/policies/room.h"
#include "scheduler/request.h"

namespace interleave::scheduler {

void HfScheduler::Plan(const EngineView& view, IterationPlan& plan) {
  Room room(view);
  budget_ = view.limits().max_num_batched_tokens;
  planned_ = 0;
  // Nobody is left whose end it could wait for.
  if (view.num_running() == 0) admits_ = true;
  if (options_.prompts_first) {
    PlanPrompts(view, plan, room);
    PlanDecodes(view, plan, room);
  } else {
    PlanDecodes(view, plan, room);
    PlanPrompts(view, plan, room);
  }
  if (admits_) AdmitWaiting(view, plan, room);
  if (planned_ == 0 && view.num_running() > 0) {
    Evict(view, plan);
  } else if (plan.decode_all() && plan.pieces().empty()) {
    // One that arrives may fit where those before it do not.
    plan.set_repeat(!admits_ || room.seqs <= 0 || budget_ == 0
                        ? Repeat::kThroughArrivals
                        : Repeat::kUntilArrival);
  }
}

void HfScheduler::PlanDecodes(const EngineView& view, IterationPlan& plan,
                              Room& room) {
  const int64_t decodes = DecodeWhatFits(view, budget_, plan, room);
  budget_ -= decodes;
  planned_ += decodes;
}

bool HfScheduler::HeldBack(const EngineView& view, const Room& room) const {
  return planned_ > 0 &&
         static_cast<double>(room.blocks) <
             options_.safety_margin * static_cast<double>(view.num_blocks());
}

void HfScheduler::PlanPrompts(const EngineView& view, IterationPlan& plan,
                              Room& room) {
  for (const Request& request : view.prefilling()) {
    if (budget_ == 0 || HeldBack(view, room)) return;
    const int64_t tokens = std::min<int64_t>(request.remaining(), budget_);
    if (!room.TryGrow(view, request, tokens)) continue;
    plan.Run(request, static_cast<int32_t>(tokens));
    budget_ -= tokens;
    planned_ += tokens;
  }
}

void HfScheduler::AdmitWaiting(const EngineView& view, IterationPlan& plan,
                               Room& room) {
  int64_t overtaken = 0;
  for (const Request& request : view.waiting()) {
    if (budget_ == 0 || room.seqs <= 0 || room.blocks == 0) return;
    if (HeldBack(view, room)) return;
    const int64_t tokens = std::min(view.TokensToCompute(request), budget_);
    if (!room.TryAdmit(view, request, tokens, Reservation::kChunk,
                       /*watermark=*/0)) {
      if (++overtaken > options_.max_overtaken) return;
      continue;
    }
    plan.Run(request, static_cast<int32_t>(tokens));
    budget_ -= tokens;
    planned_ += tokens;
  }
}

void HfScheduler::Evict(const EngineView& view, IterationPlan& plan) {
  const Request* victim = view.running().front();
  if (options_.evict_shortest) {
    for (const Request& request : view.running()) {
      if (request.computed() <= victim->computed()) victim = &request;
    }
  }
  plan.Preempt(*victim);
  admits_ = false;
}

}  // namespace interleave::scheduler
