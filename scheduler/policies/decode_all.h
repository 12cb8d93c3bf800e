// One token for every decode, and whom to preempt where blocks run short.

#ifndef SCHEDULER_POLICIES_DECODE_ALL_H_
#define SCHEDULER_POLICIES_DECODE_ALL_H_

#include <cstdint>

#include "scheduler/engine_view.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/policies/room.h"

namespace interleave::scheduler {

// Whom a plan preempts.
struct Preempted {
  int64_t requests = 0;
  // How many of them are prefilling: the last ones of view.prefilling().
  int64_t prefilling = 0;
};

// Plans decode_all.  Where blocks run short the requests admitted last are
// preempted, as few as suffice, which takes O(them); with kSwap they are
// swapped out as far as the host tier has room.  The one admitted first always
// stays: it fits alone.
//
// Blocks that two victims share are known to be free only once both are gone.
// Should that matter, the plan preempts and does not decode, and the policy is
// asked again.
Preempted PreemptLastAndDecodeAll(const EngineView& view, PreemptMode mode,
                                  IterationPlan& plan, Room& room);

inline Preempted DecodeAllOrPreemptLast(
    const EngineView& view, IterationPlan& plan, Room& room,
    PreemptMode mode = PreemptMode::kRecompute) {
  const int64_t need = view.DecodeAllNeed();
  if (need > room.blocks) {
    return PreemptLastAndDecodeAll(view, mode, plan, room);
  }
  room.blocks -= need;
  plan.DecodeAll();
  return Preempted();
}

// Plans one token each for the first `max_tokens` decodes in order of
// admission.  Those that find no block are left out.  O(running).  Returns how
// many are planned.
int64_t DecodeInOrder(const EngineView& view, int64_t max_tokens,
                      IterationPlan& plan, Room& room);

// Plans every decode, by one entry where blocks and `max_tokens` allow.
// Returns how many are planned.
inline int64_t DecodeWhatFits(const EngineView& view, int64_t max_tokens,
                              IterationPlan& plan, Room& room) {
  const int64_t need = view.DecodeAllNeed();
  if (need > room.blocks || view.num_decoding() > max_tokens) {
    return DecodeInOrder(view, max_tokens, plan, room);
  }
  room.blocks -= need;
  plan.DecodeAll();
  return view.num_decoding();
}

}  // namespace interleave::scheduler

#endif  // SCHEDULER_POLICIES_DECODE_ALL_H_
