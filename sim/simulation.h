// Simulation: a workload, a router and the replicas it serves, run to the end.

#ifndef SIM_SIMULATION_H_
#define SIM_SIMULATION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/sim_time.h"
#include "scheduler/request_spec.h"
#include "sim/event_queue.h"
#include "sim/replica.h"
#include "sim/workload/workload.h"

namespace interleave::sim {

// Chooses the replica that serves a request, when it arrives.
class Router {
 public:
  virtual ~Router() = default;
  // Returns an index into `replicas`, which is not empty.
  virtual size_t Route(const scheduler::RequestSpec& spec,
                       absl::Span<const std::unique_ptr<Replica>> replicas) = 0;
};

// Each replica in turn.
class RoundRobinRouter final : public Router {
 public:
  size_t Route(const scheduler::RequestSpec& spec,
               absl::Span<const std::unique_ptr<Replica>> replicas) override {
    return next_++ % replicas.size();
  }

 private:
  size_t next_ = 0;
};

class Simulation {
 public:
  // Called now and then with the simulated time and the requests that have
  // arrived so far.  Return false to stop the run.
  using Progress = std::function<bool(SimTime now, int64_t arrived)>;

  // The workload and the router must outlive the simulation.
  Simulation(Workload* workload, Router* router,
             std::vector<std::unique_ptr<Replica>> replicas)
      : workload_(*workload),
        router_(*router),
        replicas_(std::move(replicas)),
        plan_pending_(replicas_.size(), false) {}

  void set_progress(Progress progress) { progress_ = std::move(progress); }

  // Runs until the workload is exhausted and every request has ended.
  // Cancelled if Progress says so; else what Replica::Start returns.
  absl::Status Run();

  SimTime now() const { return now_; }
  int64_t arrived() const { return arrived_; }
  uint64_t fingerprint() const;
  const std::vector<std::unique_ptr<Replica>>& replicas() const {
    return replicas_;
  }

 private:
  void Arrive();
  absl::Status Handle(const Event& event);
  void SchedulePlan(int32_t replica);
  // When the next thing happens, as far as it is known.
  SimTime Horizon();

  Workload& workload_;
  Router& router_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  // Whether a kPlan event of the replica is in the queue.
  std::vector<bool> plan_pending_;
  EventQueue events_;
  SimTime now_;
  int64_t arrived_ = 0;
  Progress progress_;
};

}  // namespace interleave::sim

#endif  // SIM_SIMULATION_H_
