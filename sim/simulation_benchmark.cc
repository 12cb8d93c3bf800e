// How fast the simulator is: whole runs, stepped mixed iterations and
// fast-forwarded decode iterations.  One thread each.

#include <sys/resource.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/sim_time.h"
#include "benchmark/benchmark.h"
#include "google/protobuf/text_format.h"
#include "scheduler/policy.h"
#include "scheduler/registry.h"
#include "scheduler/request_spec.h"
#include "sim/cost/cost.pb.h"
#include "sim/cost/create_cost_model.h"
#include "sim/cost/host_overhead.h"
#include "sim/cost_model_executor.h"
#include "sim/metrics/metrics.h"
#include "sim/replica.h"
#include "sim/simulation.h"
#include "sim/workload/create_workload.h"
#include "sim/workload/workload.h"
#include "sim/workload/workload.pb.h"

namespace interleave::sim {
namespace {

// KV blocks of 16 tokens that Llama-3.1-8B leaves on an H200 at 90% use.
constexpr int64_t kBlocks = 53'000;

double PeakRssBytes() {
  rusage usage;
  CHECK_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

std::unique_ptr<Executor> RooflineExecutor() {
  auto cost = CreateCostModel(CostModelConfig());
  CHECK(cost.ok());
  return std::make_unique<CostModelExecutor>(*std::move(cost), HostOverhead());
}

std::unique_ptr<Workload> PoissonWorkload(int64_t num_requests,
                                          double rate_rps) {
  WorkloadConfig config;
  const std::string text = absl::StrCat(
      "generator { prompt_tokens { lognormal { mean: 1000 cv: 1 max: 32000 } }",
      " output_tokens { lognormal { mean: 200 cv: 1 max: 8000 } } }",
      " arrival { poisson { rate_rps: ", rate_rps,
      " } } num_requests: ", num_requests);
  CHECK(google::protobuf::TextFormat::ParseFromString(text, &config));
  auto workload = CreateWorkload(config, /*seed=*/1, /*notices=*/nullptr);
  CHECK(workload.ok());
  return *std::move(workload);
}

// Runs a workload to its end; the iterations it took are added to `metrics`.
void Run(Workload& workload, Metrics& metrics, const std::string& options,
         bool fast_forward) {
  auto policy = scheduler::CreatePolicy("stall_free", options);
  CHECK(policy.ok());
  Replica::Options replica_options;
  replica_options.fast_forward = fast_forward;
  replica_options.engine.limits.max_num_batched_tokens = 512;
  replica_options.engine.cache.num_blocks = kBlocks;
  auto replica =
      Replica::Create(replica_options, *std::move(policy), RooflineExecutor(),
                      &metrics, &workload, /*sink=*/nullptr);
  CHECK(replica.ok());
  std::vector<std::unique_ptr<Replica>> replicas;
  replicas.push_back(*std::move(replica));
  RoundRobinRouter router;
  Simulation simulation(&workload, &router, std::move(replicas));
  CHECK(simulation.Run().ok());
}

// Arguments: thousands of requests, requests/s.
void BM_PoissonRequests(benchmark::State& state) {
  const int64_t num_requests = state.range(0) * 1000;
  for (auto _ : state) {
    Metrics metrics;
    const auto workload =
        PoissonWorkload(num_requests, static_cast<double>(state.range(1)));
    Run(*workload, metrics, "", /*fast_forward=*/true);
    CHECK_EQ(metrics.completed() + metrics.rejected(), num_requests);
    state.counters["iterations"] = static_cast<double>(metrics.iterations());
    state.counters["mixed"] = static_cast<double>(metrics.prefill_iterations());
    state.counters["running"] = metrics.mean_running();
    state.counters["ttft_p50_ms"] = metrics.ttft().QuantileNanos(0.5) / 1e6;
  }
  state.SetItemsProcessed(state.iterations() * num_requests);
  state.counters["peak_rss_MB"] = PeakRssBytes() / 1e6;
}
// The highest rate that keeps the median TTFT below a second is about 27.
BENCHMARK(BM_PoissonRequests)
    ->Args({1000, 19})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(3);
BENCHMARK(BM_PoissonRequests)
    ->Args({44000, 19})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

// As many users as `users`; a request follows the one before at once.
class UsersWorkload final : public Workload {
 public:
  UsersWorkload(int64_t users, int64_t num_requests, int32_t prompt_tokens,
                int32_t output_tokens)
      : ready_(users),
        left_(num_requests),
        prompt_tokens_(prompt_tokens),
        output_tokens_(output_tokens) {}

  SimTime NextArrival() override {
    return left_ > 0 && ready_ > 0 ? now_ : SimTime::Infinity();
  }
  scheduler::RequestSpec Next() override {
    scheduler::RequestSpec spec;
    spec.id = next_id_++;
    spec.arrival = now_;
    spec.prompt_tokens = prompt_tokens_;
    // Spread, or all would end together.
    spec.output_tokens =
        output_tokens_ + static_cast<int32_t>(spec.id * 7 % output_tokens_);
    spec.max_output_tokens = spec.output_tokens;
    --ready_;
    --left_;
    return spec;
  }
  void OnRequestDone(int64_t id, SimTime now) override {
    ++ready_;
    now_ = now;
  }

 private:
  int64_t ready_;
  int64_t left_;
  const int32_t prompt_tokens_;
  const int32_t output_tokens_;
  int64_t next_id_ = 0;
  SimTime now_;
};

// Stepped iterations of 64 requests, nearly all with a chunk of a prompt.
void BM_MixedIterations(benchmark::State& state) {
  int64_t iterations = 0;
  for (auto _ : state) {
    Metrics metrics;
    // 40 prompt tokens an iteration beside the decodes, whence a prompt of
    // 4,000 is 100 iterations, about what the other requests take to end.
    UsersWorkload workload(65, 20'000, 4'000, 4'300);
    Run(workload, metrics, "chunk_tokens: 104", /*fast_forward=*/false);
    iterations += metrics.iterations();
    state.counters["running"] = metrics.mean_running();
    state.counters["mixed_share"] =
        static_cast<double>(metrics.prefill_iterations()) /
        static_cast<double>(metrics.iterations());
  }
  state.SetItemsProcessed(iterations);
}
BENCHMARK(BM_MixedIterations)->Unit(benchmark::kMillisecond)->Iterations(2);

// Argument: requests that decode together.
void BM_FastForwardedDecodes(benchmark::State& state) {
  int64_t iterations = 0;
  for (auto _ : state) {
    Metrics metrics;
    UsersWorkload workload(state.range(0), state.range(0) * 4'000, 16, 5'000);
    Run(workload, metrics, "", /*fast_forward=*/true);
    iterations += metrics.iterations();
  }
  state.SetItemsProcessed(iterations);
}
BENCHMARK(BM_FastForwardedDecodes)
    ->Arg(1)
    ->Arg(8)
    ->Arg(64)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace interleave::sim
