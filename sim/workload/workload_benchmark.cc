// Nanoseconds per generated request, and megabytes a second of trace read.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"
#include "base/sim_time.h"
#include "benchmark/benchmark.h"
#include "google/protobuf/text_format.h"
#include "sim/workload/azure_like_trace.h"
#include "sim/workload/create_workload.h"
#include "sim/workload/trace_reader.h"
#include "sim/workload/workload.h"
#include "sim/workload/workload.pb.h"

namespace interleave::sim {
namespace {

void BM_GenerateRequest(benchmark::State& state) {
  WorkloadConfig config;
  CHECK(google::protobuf::TextFormat::ParseFromString(
      "generator {"
      "  prompt_tokens { lognormal { mean: 1000 sigma: 0.8 } }"
      "  output_tokens { lognormal { mean: 200 sigma: 0.8 } }"
      "}"
      "arrival { poisson { rate_rps: 1000 } }"
      "num_requests: 1000000000",
      &config));
  const std::unique_ptr<Workload> workload =
      CreateWorkload(config, 1, nullptr).value();
  for (auto s : state) benchmark::DoNotOptimize(workload->Next());
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_GenerateRequest);

void ReadText(benchmark::State& state, const std::string& text,
              TraceFormat format) {
  for (auto s : state) {
    benchmark::DoNotOptimize(ParseTrace(text, "text", format));
  }
  state.SetBytesProcessed(state.iterations() *
                          static_cast<int64_t>(text.size()));
}

void BM_ReadAzure2023(benchmark::State& state) {
  ReadText(state, AzureLikeTrace(20000, 1), TraceFormat::kAzure2023);
}
BENCHMARK(BM_ReadAzure2023)->Unit(benchmark::kMillisecond);

void BM_ReadMooncake(benchmark::State& state) {
  Rng rng(1);
  std::string text;
  for (int i = 0; i < 12000; ++i) {
    const int64_t blocks = rng.UniformInt(1, 48);
    absl::StrAppend(&text, "{\"timestamp\": ", i * 300,
                    ", \"input_length\": ", blocks * 512 - 100,
                    ", \"output_length\": 300, \"hash_ids\": [0");
    for (int64_t block = 1; block < blocks; ++block) {
      absl::StrAppend(&text, ", ", rng.UniformInt(0, 200000));
    }
    absl::StrAppend(&text, "]}\n");
  }
  ReadText(state, text, TraceFormat::kMooncake);
}
BENCHMARK(BM_ReadMooncake)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace interleave::sim

BENCHMARK_MAIN();
