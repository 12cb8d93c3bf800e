#include "sim/simulation.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/sim_time.h"
#include "base/status_macros.h"
#include "scheduler/request_spec.h"
#include "sim/event_queue.h"
#include "sim/replica.h"

namespace interleave::sim {
namespace {

constexpr int64_t kEventsBetweenProgress = 1 << 14;

}  // namespace

absl::Status Simulation::Run() {
  for (int64_t handled = 0;; ++handled) {
    if (progress_ && handled % kEventsBetweenProgress == 0 &&
        !progress_(now_, arrived_)) {
      return absl::CancelledError("the run was stopped");
    }
    const SimTime arrival = workload_.NextArrival();
    if (events_.empty() && arrival == SimTime::Infinity()) break;
    const bool arrival_is_next =
        events_.empty() || arrival < events_.top().time ||
        (arrival == events_.top().time &&
         events_.top().priority > EventPriority::kArrival);
    if (arrival_is_next) {
      now_ = arrival;
      Arrive();
    } else {
      const Event event = events_.Pop();
      now_ = event.time;
      RETURN_IF_ERROR(Handle(event));
    }
  }
  return absl::OkStatus();
}

void Simulation::Arrive() {
  scheduler::RequestSpec spec = workload_.Next();
  ++arrived_;
  const size_t chosen = router_.Route(spec, replicas_);
  CHECK_LT(chosen, replicas_.size());
  Replica& replica = *replicas_[chosen];
  replica.Deliver(std::move(spec));
  if (!replica.busy()) SchedulePlan(static_cast<int32_t>(chosen));
}

void Simulation::SchedulePlan(int32_t replica) {
  if (plan_pending_[static_cast<size_t>(replica)]) return;
  plan_pending_[static_cast<size_t>(replica)] = true;
  events_.Push({now_, EventPriority::kPlan, replica});
}

absl::Status Simulation::Handle(const Event& event) {
  Replica& replica = *replicas_[static_cast<size_t>(event.replica)];
  if (event.priority == EventPriority::kIterationDone) {
    replica.Complete();
    if (Horizon() <= now_) {
      // Something else happens at this time, and comes before planning.
      SchedulePlan(event.replica);
      return absl::OkStatus();
    }
  } else {
    plan_pending_[static_cast<size_t>(event.replica)] = false;
  }
  ASSIGN_OR_RETURN(const SimTime end, replica.Start(now_, Horizon()));
  if (end != SimTime::Infinity()) {
    events_.Push({end, EventPriority::kIterationDone, event.replica});
  }
  return absl::OkStatus();
}

SimTime Simulation::Horizon() {
  const SimTime arrival = workload_.NextArrival();
  return events_.empty() ? arrival : std::min(arrival, events_.top().time);
}

uint64_t Simulation::fingerprint() const {
  uint64_t fingerprint = 0;
  for (const auto& replica : replicas_) {
    fingerprint = fingerprint * 0x100000001b3 ^ replica->fingerprint();
  }
  return fingerprint;
}

}  // namespace interleave::sim
