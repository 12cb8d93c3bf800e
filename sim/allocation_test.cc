// A steady state allocates nothing: neither planning, nor blocks, nor metrics.

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/sim_time.h"
#include "base/status_testing.h"
#include "gtest/gtest.h"
#include "scheduler/registry.h"
#include "scheduler/request_spec.h"
#include "sim/cost_model_executor.h"
#include "sim/metrics/metrics.h"
#include "sim/replica.h"
#include "sim/simulation.h"
#include "sim/testing/linear_cost_model.h"
#include "sim/workload/workload.h"

namespace {

std::atomic<int64_t> allocations{0};

void* Allocate(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return Allocate(size); }
void* operator new[](std::size_t size) { return Allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace interleave::sim {
namespace {

// Requests of a few repeating shapes at a rate the replica keeps up with; notes
// how much had been allocated when the last quarter of them begins.
class RepeatingWorkload final : public Workload {
 public:
  explicit RepeatingWorkload(int64_t num_requests) : left_(num_requests) {}

  SimTime NextArrival() override {
    return left_ == 0 ? SimTime::Infinity()
                      : SimTime::FromNanos(next_id_ * 30'000);
  }
  scheduler::RequestSpec Next() override {
    if (left_ == kMeasured) allocations_before_ = allocations.load();
    scheduler::RequestSpec spec;
    spec.id = next_id_;
    spec.arrival = NextArrival();
    spec.prompt_tokens = 200 + static_cast<int32_t>(next_id_ * 37 % 400);
    spec.output_tokens = 20 + static_cast<int32_t>(next_id_ * 53 % 160);
    spec.max_output_tokens = spec.output_tokens;
    ++next_id_;
    --left_;
    if (left_ == 0) allocations_after_ = allocations.load();
    return spec;
  }

  int64_t allocations_while_measured() const {
    return allocations_after_ - allocations_before_;
  }

  static constexpr int64_t kMeasured = 2000;

 private:
  int64_t left_;
  int64_t next_id_ = 0;
  int64_t allocations_before_ = 0;
  int64_t allocations_after_ = 0;
};

class AllocationTest : public testing::TestWithParam<std::string> {};

TEST_P(AllocationTest, SteadyStateAllocatesNothing) {
  ASSERT_OK_AND_ASSIGN(auto policy, scheduler::CreatePolicy(GetParam(), ""));
  Replica::Options options;
  options.engine.limits.max_num_batched_tokens = 512;
  options.engine.cache.num_blocks = 20'000;
  Metrics metrics;
  // Enough to take every distribution past its exact samples.
  RepeatingWorkload workload(80'000);
  ASSERT_OK_AND_ASSIGN(
      auto replica,
      Replica::Create(
          options, std::move(policy),
          std::make_unique<CostModelExecutor>(
              std::make_unique<LinearCostModel>(LinearCostModel::Coefficients{
                  .iteration = 1000, .prefill_token = 20, .decode = 10}),
              HostOverhead{}),
          &metrics, &workload, /*sink=*/nullptr));
  std::vector<std::unique_ptr<Replica>> replicas;
  replicas.push_back(std::move(replica));
  RoundRobinRouter router;
  Simulation simulation(&workload, &router, std::move(replicas));
  ASSERT_OK(simulation.Run());
  EXPECT_EQ(metrics.completed(), 80'000);
  // The state is steady, and not an idle one.
  EXPECT_GT(metrics.mean_running(), 2);
  EXPECT_EQ(workload.allocations_while_measured(), 0);
}

INSTANTIATE_TEST_SUITE_P(Policies, AllocationTest,
                         testing::Values("stall_free", "unified_budget",
                                         "prefill_first", "orca"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace interleave::sim
