// Room: what a plan in the making may still take of the cache and of
// max_num_seqs.  The decision "memory: admission" of a policy is which
// reservation it asks of TryAdmit and how many blocks it leaves free.

#ifndef SCHEDULER_POLICIES_ROOM_H_
#define SCHEDULER_POLICIES_ROOM_H_

#include <cstdint>
#include <limits>

#include "scheduler/engine_view.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/request.h"

namespace interleave::scheduler {

struct Room {
  explicit Room(const EngineView& view)
      : blocks(view.free_blocks()),
        seqs(view.limits().max_num_seqs - view.num_running()),
        nothing_runs(view.num_running() == 0) {}

  // Takes the blocks that computing `num_tokens` more takes, of a running
  // request; false and unchanged when there are too few.
  bool TryGrow(const EngineView& view, const Request& request,
               int64_t num_tokens) {
    const int64_t need = view.GrowthNeed(request, num_tokens);
    if (need > blocks) return false;
    blocks -= need;
    return true;
  }

  // Takes what admitting a waiting request takes; false and unchanged when that
  // would leave fewer than `watermark` blocks.  The watermark keeps blocks for
  // those that run: where nothing does, a request may have them all.
  bool TryAdmit(const EngineView& view, const Request& request,
                int64_t num_tokens, Reservation reservation,
                int64_t watermark) {
    if (seqs <= 0) return false;
    const int64_t need = view.AdmissionNeed(request, num_tokens, reservation);
    if (need + (nothing_runs ? 0 : watermark) > blocks) return false;
    blocks -= need;
    --seqs;
    nothing_runs = false;
    return true;
  }

  int64_t blocks;
  int64_t seqs;
  bool nothing_runs;
};

// Policy::TokenBudget of policies that compute every prompt whole, however many
// there are.
inline constexpr int64_t kNoTokenBudget = std::numeric_limits<int64_t>::max();

// Blocks that a watermark given as a share of the cache keeps free.
inline int64_t WatermarkBlocks(const EngineView& view, double watermark) {
  return static_cast<int64_t>(watermark *
                              static_cast<double>(view.num_blocks()));
}

// The promise that a plan of decode_all alone deserves, of a policy that admits
// in order of arrival and stops at the first request it cannot admit: while
// nobody ends, blocks only get fewer, so who does not fit now does not fit
// later, and arrivals queue up behind.
inline Repeat RepeatOfFirstComeFirstServed(const EngineView& view,
                                           const Room& room) {
  return view.num_waiting() > 0 || room.seqs <= 0 ? Repeat::kThroughArrivals
                                                  : Repeat::kUntilArrival;
}

}  // namespace interleave::scheduler

#endif  // SCHEDULER_POLICIES_ROOM_H_
