// ListWorkload: requests given one by one.

#ifndef SIM_TESTING_LIST_WORKLOAD_H_
#define SIM_TESTING_LIST_WORKLOAD_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/sim_time.h"
#include "scheduler/request_spec.h"
#include "sim/workload/workload.h"

namespace interleave::sim {

class ListWorkload final : public Workload {
 public:
  ListWorkload() = default;
  explicit ListWorkload(std::vector<scheduler::RequestSpec> specs)
      : specs_(std::move(specs)) {}

  // Adds a request; arrivals must not decrease.
  scheduler::RequestSpec& Add(SimTime arrival, int32_t prompt_tokens,
                              int32_t output_tokens) {
    scheduler::RequestSpec spec;
    spec.id = static_cast<int64_t>(specs_.size());
    spec.arrival = arrival;
    spec.prompt_tokens = prompt_tokens;
    spec.output_tokens = output_tokens;
    spec.max_output_tokens = output_tokens;
    specs_.push_back(spec);
    return specs_.back();
  }

  SimTime NextArrival() override {
    return next_ == specs_.size() ? SimTime::Infinity() : specs_[next_].arrival;
  }
  scheduler::RequestSpec Next() override { return specs_[next_++]; }
  void OnRequestDone(int64_t id, SimTime now) override {
    done_.emplace_back(id, now);
  }
  int64_t TotalRequests() const override {
    return static_cast<int64_t>(specs_.size());
  }

  // In order of ending.
  const std::vector<std::pair<int64_t, SimTime>>& done() const { return done_; }

 private:
  std::vector<scheduler::RequestSpec> specs_;
  size_t next_ = 0;
  std::vector<std::pair<int64_t, SimTime>> done_;
};

}  // namespace interleave::sim

#endif  // SIM_TESTING_LIST_WORKLOAD_H_
