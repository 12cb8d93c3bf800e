// EventQueue: what happens next, in one total order.
//
// Events are ordered by time, then by named priority, then by order of
// insertion (64-bit, so it does not wrap), whence a run is the same on every
// machine.  Push and Pop are O(log n).

#ifndef SIM_EVENT_QUEUE_H_
#define SIM_EVENT_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <queue>
#include <tuple>
#include <vector>

#include "base/sim_time.h"

namespace interleave::sim {

// What comes first among events of one time, and why.
enum class EventPriority : uint8_t {
  // An iteration that ends gives back its blocks before anyone looks at them.
  kIterationDone = 0,
  // A request that arrives as an iteration ends is in the plan of the next.
  kArrival = 1,
  kPlan = 2,
};

struct Event {
  SimTime time;
  EventPriority priority = EventPriority::kPlan;
  int32_t replica = 0;
};

class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  size_t size() const { return heap_.size(); }

  void Push(const Event& event) { heap_.push({event, next_number_++}); }

  // REQUIRES: not empty.
  const Event& top() const { return heap_.top().event; }
  Event Pop() {
    const Event event = heap_.top().event;
    heap_.pop();
    return event;
  }

 private:
  struct Entry {
    Event event;
    uint64_t number;
    // Reversed: std::priority_queue keeps the greatest on top.
    friend bool operator<(const Entry& a, const Entry& b) {
      return std::tie(a.event.time, a.event.priority, a.number) >
             std::tie(b.event.time, b.event.priority, b.number);
    }
  };
  std::priority_queue<Entry> heap_;
  uint64_t next_number_ = 0;
};

}  // namespace interleave::sim

#endif  // SIM_EVENT_QUEUE_H_
