#include "scheduler/policies/decode_all.h"

#include <cstdint>

#include "scheduler/engine_view.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/policies/room.h"
#include "scheduler/request.h"

namespace interleave::scheduler {

Preempted PreemptLastAndDecodeAll(const EngineView& view, PreemptMode mode,
                                  IterationPlan& plan, Room& room) {
  Preempted preempted;
  int64_t need = view.DecodeAllNeed();
  int64_t host_blocks = view.free_host_blocks();
  const Request* victim = view.running().back();
  while (need > room.blocks && victim != view.running().front()) {
    PreemptMode how = PreemptMode::kRecompute;
    if (mode == PreemptMode::kSwap && victim->phase() == Phase::kDecode &&
        view.BlocksHeld(*victim) <= host_blocks) {
      how = PreemptMode::kSwap;
      host_blocks -= view.BlocksHeld(*victim);
    }
    plan.Preempt(*victim, how);
    room.blocks += view.BlocksFreedBy(*victim);
    if (view.DecodeNeedsBlock(*victim)) --need;
    ++preempted.requests;
    if (victim->phase() == Phase::kPrefill) ++preempted.prefilling;
    victim = RequestQueue::Previous(*victim);
  }
  if (need <= room.blocks) {
    room.blocks -= need;
    plan.DecodeAll();
  }
  return preempted;
}

int64_t DecodeInOrder(const EngineView& view, int64_t max_tokens,
                      IterationPlan& plan, Room& room) {
  int64_t planned = 0;
  for (const Request& request : view.running()) {
    if (planned == max_tokens) break;
    if (request.phase() != Phase::kDecode) continue;
    if (!room.TryGrow(view, request, 1)) continue;
    plan.Run(request, 1);
    ++planned;
  }
  return planned;
}

}  // namespace interleave::scheduler
