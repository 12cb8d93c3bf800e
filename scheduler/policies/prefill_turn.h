// A prefill iteration: prompts in order of arrival, cut to a number of tokens
// where they may be cut.

#ifndef SCHEDULER_POLICIES_PREFILL_TURN_H_
#define SCHEDULER_POLICIES_PREFILL_TURN_H_

#include <algorithm>
#include <cstdint>

#include "scheduler/engine_view.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/policies/room.h"
#include "scheduler/request.h"

namespace interleave::scheduler {

struct PrefillTurn {
  // Tokens that the iteration may take.
  int64_t budget;
  // Prompts are cut to what is left of the budget; else one that exceeds it
  // waits.
  bool cut;
  // Blocks that admitting a request leaves free.
  int64_t watermark;

  // Plans the prompts under way, then admits with blocks for the whole prompt
  // until one does not fit.  Returns the tokens planned.
  int64_t Plan(const EngineView& view, IterationPlan& plan, Room& room) const {
    int64_t used = 0;
    for (const Request& request : view.prefilling()) {
      const int64_t tokens =
          std::min<int64_t>(request.remaining(), budget - used);
      if (tokens <= 0) return used;
      if (!room.TryGrow(view, request, tokens)) return used;
      plan.Run(request, static_cast<int32_t>(tokens));
      used += tokens;
    }
    if (room.seqs <= 0) return used;
    for (const Request& request : view.waiting()) {
      if (used >= budget) return used;
      int64_t tokens = view.TokensToCompute(request);
      if (used + tokens > budget) {
        if (!cut) return used;
        tokens = budget - used;
      }
      if (!room.TryAdmit(view, request, tokens, Reservation::kPrompt,
                         watermark)) {
        return used;
      }
      plan.Run(request, static_cast<int32_t>(tokens), Reservation::kPrompt);
      used += tokens;
    }
    return used;
  }
};

}  // namespace interleave::scheduler

#endif  // SCHEDULER_POLICIES_PREFILL_TURN_H_
