#include "sim/workload/closed_loop_workload.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/sim_time.h"
#include "scheduler/request_spec.h"
#include "sim/workload/request_source.h"
#include "sim/workload/workload.h"

namespace interleave::sim {
namespace {

using ::interleave::scheduler::RequestSpec;

class ClosedLoopWorkload : public Workload {
 public:
  ClosedLoopWorkload(const ClosedLoopOptions& options,
                     std::unique_ptr<RequestSource> source,
                     int64_t num_requests, const Rng& rng)
      : options_(options),
        source_(std::move(source)),
        num_requests_(num_requests),
        rng_(rng.Fork("think_time")) {
    const SimDuration gap = SimDuration::Seconds(options.start_gap_s);
    for (int32_t i = 0; i < options.users; ++i) {
      ready_.push(SimTime::Zero() + gap * i);
    }
  }

  SimTime NextArrival() override {
    if (ready_.empty() || next_id_ == num_requests_) {
      return SimTime::Infinity();
    }
    return std::max(ready_.top(), last_arrival_);
  }

  RequestSpec Next() override {
    DCHECK(NextArrival() < SimTime::Infinity());
    RequestSpec spec = source_->Next();
    spec.id = next_id_;
    spec.arrival = last_arrival_ = NextArrival();
    ++next_id_;
    ready_.pop();
    return spec;
  }

  // Users are alike, so it does not matter whose request has ended.
  void OnRequestDone(int64_t id, SimTime now) override {
    ready_.push(now + ThinkTime());
  }

  int64_t TotalRequests() const override { return num_requests_; }

 private:
  SimDuration ThinkTime() {
    return SimDuration::Seconds(options_.exponential_think_time
                                    ? rng_.Exponential(options_.think_time_s)
                                    : options_.think_time_s);
  }

  const ClosedLoopOptions options_;
  const std::unique_ptr<RequestSource> source_;
  const int64_t num_requests_;
  Rng rng_;
  int64_t next_id_ = 0;
  SimTime last_arrival_;
  // When each user who is not waiting for an answer asks next, soonest on top.
  std::priority_queue<SimTime, std::vector<SimTime>, std::greater<SimTime>>
      ready_;
};

}  // namespace

std::unique_ptr<Workload> MakeClosedLoopWorkload(
    const ClosedLoopOptions& options, std::unique_ptr<RequestSource> source,
    int64_t num_requests, const Rng& rng) {
  CHECK_GE(options.users, 1);
  CHECK_GE(options.start_gap_s, 0);
  CHECK_GE(options.think_time_s, 0);
  CHECK_GE(num_requests, 1);
  CHECK_LE(num_requests, source->size());
  return std::make_unique<ClosedLoopWorkload>(options, std::move(source),
                                              num_requests, rng);
}

}  // namespace interleave::sim
