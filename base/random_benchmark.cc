// Nanoseconds per draw of each distribution.

#include <cstdint>

#include "base/random.h"
#include "benchmark/benchmark.h"

namespace interleave {
namespace {

template <typename Draw>
void MeasureDraws(benchmark::State& state, Draw draw) {
  Rng rng(1);
  for (auto s : state) benchmark::DoNotOptimize(draw(rng));
  state.SetItemsProcessed(state.iterations());
}

void BM_Uniform01(benchmark::State& state) {
  MeasureDraws(state, [](Rng& rng) { return rng.Uniform01(); });
}
BENCHMARK(BM_Uniform01);

void BM_UniformInt(benchmark::State& state) {
  MeasureDraws(state, [](Rng& rng) { return rng.UniformInt(1, 1000); });
}
BENCHMARK(BM_UniformInt);

void BM_Exponential(benchmark::State& state) {
  MeasureDraws(state, [](Rng& rng) { return rng.Exponential(1.0); });
}
BENCHMARK(BM_Exponential);

void BM_Normal(benchmark::State& state) {
  MeasureDraws(state, [](Rng& rng) { return rng.StandardNormal(); });
}
BENCHMARK(BM_Normal);

void BM_LogNormal(benchmark::State& state) {
  MeasureDraws(state, [](Rng& rng) { return rng.LogNormal(6, 1); });
}
BENCHMARK(BM_LogNormal);

void BM_Gamma(benchmark::State& state) {
  MeasureDraws(state, [](Rng& rng) { return rng.Gamma(4, 0.25); });
}
BENCHMARK(BM_Gamma);

void BM_Zipf(benchmark::State& state) {
  const ZipfDistribution zipf(100000, 1.1);
  MeasureDraws(state, [&zipf](Rng& rng) { return zipf(rng); });
}
BENCHMARK(BM_Zipf);

}  // namespace
}  // namespace interleave

BENCHMARK_MAIN();
