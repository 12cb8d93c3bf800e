// Nanoseconds per decision of every policy that is linked in, with so many
// requests decoding: alone, and with a long prompt under way and requests
// waiting.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "benchmark/benchmark.h"
#include "scheduler/conformance/engine_driver.h"
#include "scheduler/engine_view.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/policy.h"
#include "scheduler/registry.h"
#include "scheduler/request_spec.h"

namespace interleave::scheduler {
namespace {

constexpr int64_t kNumWaiting = 16;

std::unique_ptr<EngineDriver> Decoding(const std::string& policy,
                                       int64_t count) {
  EngineDriver::Setup setup;
  setup.limits.max_num_seqs = static_cast<int32_t>(count + 1);
  setup.num_blocks = 1 << 20;
  auto driver = EngineDriver::Create(setup, policy, "");
  CHECK(driver.ok());
  for (int64_t id = 0; id < count; ++id) {
    RequestSpec spec;
    spec.id = id;
    spec.prompt_tokens = static_cast<int32_t>(100 + id % 37);
    spec.output_tokens = 10'000;
    CHECK((*driver)->Submit(spec));
  }
  while ((*driver)->state().num_steady() < count) {
    CHECK((*driver)->Step().ok());
  }
  return *std::move(driver);
}

void MeasurePlan(benchmark::State& state, EngineDriver& driver) {
  IterationPlan plan;
  const EngineView view(driver.state(), driver.now(), /*predictor=*/nullptr);
  for (auto _ : state) {
    plan.Clear();
    driver.policy().Plan(view, plan);
    benchmark::DoNotOptimize(plan);
  }
}

void MeasureDecodes(benchmark::State& state, const std::string& policy) {
  const auto driver = Decoding(policy, state.range(0));
  MeasurePlan(state, *driver);
}

void MeasureMixed(benchmark::State& state, const std::string& policy) {
  const int64_t count = state.range(0);
  const auto driver = Decoding(policy, count);
  for (int64_t i = 0; i <= kNumWaiting; ++i) {
    RequestSpec spec;
    spec.id = count + i;
    spec.prompt_tokens = i == 0 ? 100'000 : 500;
    spec.output_tokens = 10;
    CHECK(driver->Submit(spec));
  }
  for (int i = 0; i < 3; ++i) CHECK(driver->Step().ok());
  MeasurePlan(state, *driver);
}

}  // namespace

void RegisterBenchmarks() {
  for (const PolicyInfo& info : RegisteredPolicies()) {
    const std::string name = info.name;
    for (const int64_t count : {64, 1024}) {
      benchmark::RegisterBenchmark(
          absl::StrCat("BM_PlanDecodes/", name).c_str(),
          [name](benchmark::State& state) { MeasureDecodes(state, name); })
          ->Arg(count);
      benchmark::RegisterBenchmark(
          absl::StrCat("BM_PlanMixed/", name).c_str(),
          [name](benchmark::State& state) { MeasureMixed(state, name); })
          ->Arg(count);
    }
  }
}

}  // namespace interleave::scheduler

int main(int argc, char** argv) {
  interleave::scheduler::RegisterBenchmarks();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
