#include "sim/workload/open_loop_workload.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/sim_time.h"
#include "scheduler/request_spec.h"
#include "sim/workload/arrival_law.h"
#include "sim/workload/request_source.h"
#include "sim/workload/workload.h"

namespace interleave::sim {
namespace {

using ::interleave::scheduler::RequestSpec;

class OpenLoopWorkload : public Workload {
 public:
  OpenLoopWorkload(std::unique_ptr<ArrivalLaw> arrivals,
                   std::unique_ptr<RequestSource> source, int64_t num_requests,
                   const Rng& rng)
      : arrivals_(std::move(arrivals)),
        source_(std::move(source)),
        num_requests_(num_requests),
        rng_(rng.Fork("arrival")),
        next_arrival_(arrivals_->Next(rng_)) {}

  SimTime NextArrival() override { return next_arrival_; }

  RequestSpec Next() override {
    DCHECK_LT(next_id_, num_requests_);
    RequestSpec spec = source_->Next();
    spec.id = next_id_++;
    spec.arrival = next_arrival_;
    next_arrival_ =
        next_id_ < num_requests_ ? arrivals_->Next(rng_) : SimTime::Infinity();
    return spec;
  }

  int64_t TotalRequests() const override { return num_requests_; }

 private:
  const std::unique_ptr<ArrivalLaw> arrivals_;
  const std::unique_ptr<RequestSource> source_;
  const int64_t num_requests_;
  Rng rng_;
  int64_t next_id_ = 0;
  SimTime next_arrival_;
};

class ListedArrivals : public ArrivalLaw {
 public:
  explicit ListedArrivals(std::vector<SimTime> arrivals)
      : arrivals_(std::move(arrivals)) {}

  SimTime Next(Rng& rng) override {
    DCHECK_LT(next_, arrivals_.size());
    return arrivals_[next_++];
  }

 private:
  const std::vector<SimTime> arrivals_;
  size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Workload> MakeOpenLoopWorkload(
    std::unique_ptr<ArrivalLaw> arrivals, std::unique_ptr<RequestSource> source,
    int64_t num_requests, const Rng& rng) {
  CHECK_GE(num_requests, 1);
  CHECK_LE(num_requests, source->size());
  return std::make_unique<OpenLoopWorkload>(
      std::move(arrivals), std::move(source), num_requests, rng);
}

std::unique_ptr<Workload> MakeTimedWorkload(
    std::vector<SimTime> arrivals, std::unique_ptr<RequestSource> source) {
  CHECK(std::is_sorted(arrivals.begin(), arrivals.end()));
  const int64_t num_requests = static_cast<int64_t>(arrivals.size());
  return MakeOpenLoopWorkload(
      std::make_unique<ListedArrivals>(std::move(arrivals)), std::move(source),
      num_requests, Rng(0));
}

}  // namespace interleave::sim
