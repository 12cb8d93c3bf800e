// GapHistory: answers "what was the longest gap between decode iterations since
// this request joined?" without visiting a request in any iteration.
//
// A stack of suffix maxima: Push drops every older gap that is not longer than
// the new one, so what is left decreases and the answer is the first entry at
// or after the request's first iteration.  Push is O(1) amortized, Longest
// O(log n).

#ifndef SIM_METRICS_GAP_HISTORY_H_
#define SIM_METRICS_GAP_HISTORY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/sim_time.h"

namespace interleave::sim {

class GapHistory {
 public:
  // REQUIRES: iterations are pushed in increasing order.
  void Push(int64_t iteration, SimDuration gap) {
    while (!entries_.empty() && entries_.back().gap <= gap) {
      entries_.pop_back();
    }
    entries_.push_back({iteration, gap});
  }

  // The longest gap of iterations at or after `begin`; zero if there is none.
  SimDuration Longest(int64_t begin) const {
    const auto it = std::lower_bound(entries_.begin(), entries_.end(), begin,
                                     [](const Entry& entry, int64_t first) {
                                       return entry.iteration < first;
                                     });
    return it == entries_.end() ? SimDuration::Zero() : it->gap;
  }

  size_t size() const { return entries_.size(); }

  // Forgets iterations before `begin`: nobody will ask for them.
  void DropBefore(int64_t begin) {
    const auto it = std::lower_bound(entries_.begin(), entries_.end(), begin,
                                     [](const Entry& entry, int64_t first) {
                                       return entry.iteration < first;
                                     });
    entries_.erase(entries_.begin(), it);
  }

 private:
  struct Entry {
    int64_t iteration;
    SimDuration gap;
  };
  std::vector<Entry> entries_;
};

}  // namespace interleave::sim

#endif  // SIM_METRICS_GAP_HISTORY_H_
