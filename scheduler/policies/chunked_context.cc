#include "scheduler/policies/chunked_context.h"

#include <algorithm>
#include <cstdint>

#include "absl/types/span.h"
#include "scheduler/engine_view.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/limits.h"
#include "scheduler/policies/decode_all.h"
#include "scheduler/policies/room.h"
#include "scheduler/policies/token_allocation.h"
#include "scheduler/request.h"

namespace interleave::scheduler {

void ChunkedContext::Plan(const EngineView& view, IterationPlan& plan) {
  Room room(view);
  const Decodes decodes = PlanDecodes(view, plan, room);
  const ShareLimits limits = LimitsOfPrompts(view, decodes.planned);
  shares_.clear();
  wanted_ = 0;
  if (limits.capacity > 0) {
    CollectPrefilling(view, limits,
                      view.prefilling().size() - decodes.preempted.prefilling);
    if (decodes.preempted.requests == 0) CollectWaiting(view, limits, room);
    Share(view, limits);
  }
  for (const PromptShare& share : shares_) {
    if (share.tokens == 0) continue;
    plan.Run(*share.request, static_cast<int32_t>(share.tokens),
             options_.reservation);
  }
  if (decodes.planned == 0 && plan.pieces().empty() &&
      plan.preemptions().empty() && view.num_running() > 0) {
    // Too few blocks for any of the decodes that the budget allows.
    plan.Preempt(*view.running().back());
  }
  if (plan.decode_all() && plan.pieces().empty() &&
      plan.preemptions().empty()) {
    // What is left of the budget may be too little for those who wait and
    // enough for one that arrives.
    const bool overtakes =
        !shares_.empty() || (options_.by_priority && room.seqs > 0);
    plan.set_repeat(overtakes ? Repeat::kUntilArrival
                              : RepeatOfFirstComeFirstServed(view, room));
  }
}

int64_t ChunkedContext::TokenBudget(const Limits& limits) const {
  // A prompt that may not be cut and exceeds the budget is computed alone.
  return options_.chunking == WHOLE
             ? std::max(limits.max_num_batched_tokens, limits.max_model_len)
             : limits.max_num_batched_tokens;
}

ChunkedContext::Decodes ChunkedContext::PlanDecodes(const EngineView& view,
                                                    IterationPlan& plan,
                                                    Room& room) const {
  const int64_t budget = view.limits().max_num_batched_tokens;
  Decodes decodes;
  if (view.num_decoding() > budget) {
    decodes.planned = DecodeInOrder(view, budget, plan, room);
    return decodes;
  }
  decodes.preempted = DecodeAllOrPreemptLast(view, plan, room);
  decodes.planned = view.num_decoding() -
                    (decodes.preempted.requests - decodes.preempted.prefilling);
  return decodes;
}

ShareLimits ChunkedContext::LimitsOfPrompts(const EngineView& view,
                                            int64_t decodes) const {
  const int64_t budget = view.limits().max_num_batched_tokens;
  ShareLimits limits;
  limits.capacity = budget - decodes;
  limits.max_tokens = options_.max_context_tokens;
  limits.unit =
      options_.chunk_unit > 0 ? options_.chunk_unit : view.block_size();
  // A prompt alone must get at least a unit.
  limits.unit = std::min(limits.unit, budget);
  if (limits.max_tokens > 0) {
    limits.unit = std::min(limits.unit, limits.max_tokens);
  }
  return limits;
}

void ChunkedContext::Add(const Request& request, int64_t remaining,
                         const ShareLimits& limits) {
  PromptShare share;
  share.request = &request;
  share.remaining = remaining;
  shares_.push_back(share);
  int64_t wanted = remaining;
  if (options_.chunking == EQUAL_PROGRESS) {
    wanted = std::min(wanted, limits.unit);
  } else if (options_.chunking != WHOLE && limits.max_tokens > 0) {
    wanted = std::min(wanted, limits.max_tokens);
  }
  wanted_ += wanted;
}

void ChunkedContext::CollectPrefilling(const EngineView& view,
                                       const ShareLimits& limits,
                                       int64_t count) {
  for (const Request& request : view.prefilling()) {
    if (--count < 0) return;
    Add(request, request.remaining(), limits);
  }
}

void ChunkedContext::CollectWaiting(const EngineView& view,
                                    const ShareLimits& limits, Room& room) {
  for (const Request& request : view.waiting()) {
    if (wanted_ >= limits.capacity) return;
    const int64_t tokens = view.TokensToCompute(request);
    // The blocks do not depend on how many tokens it is given now.
    if (!room.TryAdmit(view, request, tokens, options_.reservation,
                       WatermarkBlocks(view, options_.watermark))) {
      return;
    }
    Add(request, tokens, limits);
  }
}

void ChunkedContext::Share(const EngineView& view, const ShareLimits& limits) {
  switch (options_.chunking) {
    case WHOLE:
      ShareWhole(view, limits.capacity);
      break;
    case FIRST_COME_FIRST_SERVED:
      ShareFirstComeFirstServed(absl::MakeSpan(shares_), limits);
      break;
    case EQUAL_PROGRESS:
      ShareEqually(absl::MakeSpan(shares_), limits);
      break;
  }
}

void ChunkedContext::ShareWhole(const EngineView& view, int64_t capacity) {
  for (PromptShare& share : shares_) {
    const bool alone = view.num_running() == 0 && &share == shares_.data();
    if (share.remaining > capacity && !alone) return;
    share.tokens = share.remaining;
    capacity -= share.remaining;
  }
}

}  // namespace interleave::scheduler
