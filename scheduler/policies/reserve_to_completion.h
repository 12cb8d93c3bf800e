// Admission that reserves all a request may ever need, so that nobody is ever
// preempted.

#ifndef SCHEDULER_POLICIES_RESERVE_TO_COMPLETION_H_
#define SCHEDULER_POLICIES_RESERVE_TO_COMPLETION_H_

#include <algorithm>
#include <cstdint>

#include "base/ceil_div.h"
#include "scheduler/engine_view.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/policies/room.h"
#include "scheduler/request.h"

namespace interleave::scheduler {

// How many requests may run: where each takes the room of max_model_len tokens,
// as many as the cache holds, but at least one.
inline int64_t MaxRunning(const EngineView& view, bool reserve_max_model_len) {
  const int64_t most = view.limits().max_num_seqs;
  if (!reserve_max_model_len) return most;
  const int64_t each = CeilDiv(view.limits().max_model_len, view.block_size());
  return std::clamp<int64_t>(view.num_blocks() / each, 1, most);
}

// Admits in order until `max_running` run or one does not fit; prompts are
// computed whole.
inline void AdmitWhole(const EngineView& view, int64_t max_running,
                       IterationPlan& plan, Room& room) {
  room.seqs = std::min(room.seqs, max_running - view.num_running());
  if (room.seqs <= 0) return;
  for (const Request& request : view.waiting()) {
    const int64_t tokens = view.TokensToCompute(request);
    if (!room.TryAdmit(view, request, tokens, Reservation::kCompletion,
                       /*watermark=*/0)) {
      return;
    }
    plan.Run(request, static_cast<int32_t>(tokens), Reservation::kCompletion);
  }
}

}  // namespace interleave::scheduler

#endif  // SCHEDULER_POLICIES_RESERVE_TO_COMPLETION_H_
