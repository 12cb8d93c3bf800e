// Nanoseconds a prediction.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/public_data.h"
#include "base/sim_time.h"
#include "benchmark/benchmark.h"
#include "sim/cost/batch_shape.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/create_cost_model.h"

namespace interleave::sim {
namespace {

CostModelConfig Roofline(const char* model) {
  CostModelConfig config;
  config.set_model(model);
  return config;
}

CostModelConfig Profile() {
  CostModelConfig config;
  config.mutable_profile()->set_directory(
      absl::StrCat(PublicDataFolder(), "/vllm_replay/RTX4090/profile"));
  return config;
}

CostModelConfig KernelTables() {
  CostModelConfig config;
  config.mutable_kernel_tables()->set_directory(
      absl::StrCat(PublicDataFolder(), "/kernel_tables"));
  config.mutable_kernel_tables()->set_system("h100_sxm");
  return config;
}

DecodeGroup Decodes(int64_t count, int64_t kv) {
  return {.count = count,
          .kv_tokens = count * kv,
          .kv_tokens_squared = count * kv * (kv + 100),
          .kv_tokens_max = kv + 300};
}

std::unique_ptr<CostModel> Create(const CostModelConfig& config) {
  auto cost = CreateCostModel(config);
  CHECK(cost.ok());
  return *std::move(cost);
}

void MixedIteration(benchmark::State& state, const CostModelConfig& config) {
  const auto cost = Create(config);
  PrefillChunk chunk = {448, 0};
  BatchShape shape;
  shape.prefill = absl::MakeConstSpan(&chunk, 1);
  shape.prefill_tokens = chunk.query_tokens;
  shape.decode = Decodes(64, 1'000);
  for (auto _ : state) {
    benchmark::DoNotOptimize(cost->IterationTime(shape));
    chunk.context_tokens = (chunk.context_tokens + 448) & 0xfff;
    shape.decode.Advance();
    if (shape.decode.kv_tokens_max > 4'000) shape.decode = Decodes(64, 1'000);
  }
  state.SetItemsProcessed(state.iterations());
}

void DecodeIterations(benchmark::State& state, const CostModelConfig& config) {
  const auto cost = Create(config);
  std::vector<SimDuration> times(1'000);
  for (auto _ : state) {
    cost->DecodeTimes(Decodes(64, 1'000), absl::MakeSpan(times));
    benchmark::DoNotOptimize(times.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() *
                          static_cast<int64_t>(times.size()));
}

void Register(const std::string& name, const CostModelConfig& config) {
  benchmark::RegisterBenchmark(absl::StrCat(name, "/mixed_iteration").c_str(),
                               MixedIteration, config);
  benchmark::RegisterBenchmark(absl::StrCat(name, "/decode_times").c_str(),
                               DecodeIterations, config);
}

}  // namespace
}  // namespace interleave::sim

int main(int argc, char** argv) {
  using interleave::sim::Register;
  Register("roofline_dense", interleave::sim::Roofline("llama3.1_8b"));
  Register("roofline_experts", interleave::sim::Roofline("mixtral_8x7b"));
  if (!interleave::PublicDataFolder().empty()) {
    Register("profile", interleave::sim::Profile());
    Register("kernel_tables", interleave::sim::KernelTables());
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
