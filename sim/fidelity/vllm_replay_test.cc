// A real vLLM server, replayed: 300 requests on an RTX 4090, costed by that
// GPU's own kernel tables; see docs/fidelity.md.

#include <cmath>
#include <string>
#include <vector>

#include "base/public_data.h"
#include "base/status_testing.h"
#include "base/text_file.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "sim/config/simulation.pb.h"
#include "sim/fidelity/latencies.h"
#include "sim/metrics/metrics.h"
#include "sim/run.h"
#include "sim/run_result.h"

namespace interleave::sim {
namespace {

class TimesRecorder final : public RecordSink {
 public:
  void OnIteration(const IterationRecord& record) override {}
  void OnRequest(const RequestRecord& record) override {
    times.push_back({record.output_tokens, record.arrival, record.first_token,
                     record.last_token});
  }
  std::vector<RequestTimes> times;
};

TEST(VllmReplayTest, EveryStatisticWithinTwoPercent) {
  const std::string data = PublicDataFolder();
  if (data.empty()) {
    GTEST_SKIP() << "INTERLEAVE_DATA names no folder of public measurements";
  }
  const std::string folder = data + "/vllm_replay/";
  ASSERT_OK_AND_ASSIGN(const std::string text,
                       ReadTextFile("sim/fidelity/vllm_rtx4090.textproto"));
  SimulationConfig config;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config));
  config.mutable_workload()->mutable_trace()->set_path(
      folder + "sharegpt-llama-3.1-8b-300-sps10.slim.csv");
  config.mutable_cost()->mutable_profile()->set_directory(folder +
                                                          "RTX4090/profile");
  TimesRecorder recorder;
  RunOptions options;
  options.sink = &recorder;
  ASSERT_OK_AND_ASSIGN(const RunResult result, RunSimulation(config, options));
  EXPECT_EQ(result.metrics.completed(), 300);

  ASSERT_OK_AND_ASSIGN(
      const std::string log,
      ReadTextFile(folder + "RTX4090/Llama-3.1-8B/vllm/requests.jsonl"));
  ASSERT_OK_AND_ASSIGN(const std::vector<RequestTimes> measured,
                       ReadMeasuredRequests(log, "requests.jsonl"));
  for (const Deviation& d :
       Compare(LatenciesOf(measured), LatenciesOf(recorder.times))) {
    EXPECT_LT(std::abs(d.relative()), 0.02)
        << d.statistic << ": measured " << d.measured_ms << " ms, simulated "
        << d.simulated_ms << " ms";
  }
}

}  // namespace
}  // namespace interleave::sim
