// Simulations with the shipped profile of the H200, held against runs of the
// same policies on that card's kernels (h200_kernel_runs.csv, measured by
// //sim/experiments:mixing_on_kernels; docs/fidelity.md says how).

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/csv.h"
#include "base/public_data.h"
#include "base/status_macros.h"
#include "base/status_testing.h"
#include "base/text_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/config/simulation.pb.h"
#include "sim/fidelity/latencies.h"
#include "sim/metrics/metrics.h"
#include "sim/run.h"
#include "sim/run_result.h"

namespace interleave::sim {
namespace {

constexpr char kRuns[] = "sim/fidelity/h200_kernel_runs.csv";

// Policy with its options in braces, as the mixing experiment writes it.
struct Run {
  double rate_rps = 0;
  std::string policy;

  friend auto operator<=>(const Run&, const Run&) = default;
};

// By run and statistic, in ms.
using Measured = std::map<Run, std::map<std::string, double>>;

absl::StatusOr<Measured> ReadMeasured() {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(kRuns));
  CsvReader csv(text, kRuns);
  RETURN_IF_ERROR(csv.ReadHeader());
  ASSIGN_OR_RETURN(const int rate, csv.Column("rate_rps"));
  ASSIGN_OR_RETURN(const int policy, csv.Column("policy"));
  ASSIGN_OR_RETURN(const int statistic, csv.Column("statistic"));
  ASSIGN_OR_RETURN(const int measured, csv.Column("measured_ms"));
  Measured runs;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, csv.Next());
    if (!more) return runs;
    Run run;
    ASSIGN_OR_RETURN(run.rate_rps, csv.Double(rate, 0, 1e9));
    run.policy = std::string(csv.Text(policy));
    ASSIGN_OR_RETURN(const double ms, csv.Double(measured, 0, 1e12));
    runs[run][std::string(csv.Text(statistic))] = ms;
  }
}

class TimesRecorder final : public RecordSink {
 public:
  void OnIteration(const IterationRecord& record) override {}
  void OnRequest(const RequestRecord& record) override {
    times.push_back({record.output_tokens, record.arrival, record.first_token,
                     record.last_token});
  }
  std::vector<RequestTimes> times;
};

std::vector<Deviation> Simulate(const Run& run, const std::string& trace) {
  SimulationConfig config;
  config.mutable_workload()->mutable_trace()->set_path(trace);
  config.mutable_workload()->mutable_trace()->set_rate_rps(run.rate_rps);
  config.mutable_workload()->set_num_requests(400);
  config.mutable_cost()->mutable_profile()->set_name("h200_llama3.1_8b");
  config.mutable_limits()->set_max_model_len(8192);
  const size_t brace = run.policy.find('{');
  config.mutable_policy()->set_name(run.policy.substr(0, brace));
  if (brace != std::string::npos) {
    config.mutable_policy()->set_options(
        std::string(absl::StripSuffix(run.policy.substr(brace + 1), "}")));
  }
  TimesRecorder recorder;
  RunOptions options;
  options.sink = &recorder;
  const auto result = RunSimulation(config, options);
  EXPECT_OK(result);
  EXPECT_EQ(recorder.times.size(), 400u);
  return Compare(Latencies(), LatenciesOf(recorder.times));
}

// By run and statistic, in ms, measured and simulated.
using Compared = std::map<Run, std::map<std::string, Deviation>>;

class KernelRunsTest : public ::testing::Test {
 protected:
  // Simulates once for all tests.
  static void SetUpTestSuite() {
    if (PublicDataFolder().empty()) return;
    const std::string trace = absl::StrCat(
        PublicDataFolder(), "/azure2023/AzureLLMInferenceTrace_conv.csv");
    ASSERT_OK_AND_ASSIGN(const Measured measured, ReadMeasured());
    ASSERT_EQ(measured.size(), 18u);
    for (const auto& [run, statistics] : measured) {
      for (Deviation& d : Simulate(run, trace)) {
        const auto found = statistics.find(d.statistic);
        if (found == statistics.end()) continue;
        d.measured_ms = found->second;
        compared_[run][d.statistic] = d;
      }
      ASSERT_EQ(compared_[run].size(), 6u);
    }
  }
  static void TearDownTestSuite() { compared_.clear(); }

  void SetUp() override {
    if (PublicDataFolder().empty()) {
      GTEST_SKIP() << "INTERLEAVE_DATA names no folder of public measurements";
    }
    ASSERT_EQ(compared_.size(), 18u);
  }

  static inline Compared compared_;
};

TEST_F(KernelRunsTest, WithinWhatIsDocumented) {
  double sum = 0;
  int count = 0;
  int close = 0;
  for (const auto& [run, statistics] : compared_) {
    for (const auto& [name, d] : statistics) {
      const double error = std::abs(d.relative());
      EXPECT_LT(error, 0.043)
          << run.policy << " at " << run.rate_rps << ", " << name << ": "
          << d.simulated_ms << " ms for " << d.measured_ms;
      sum += error;
      ++count;
      if (error <= 0.03) ++close;
    }
  }
  EXPECT_EQ(count, 108);
  EXPECT_LT(sum / count, 0.0125);
  EXPECT_GE(close, 100);
}

TEST_F(KernelRunsTest, PoliciesRankTheSame) {
  // Closer ones may change places.
  constexpr double kApart = 1.005;
  int pairs = 0;
  for (const auto& [a, of_a] : compared_) {
    for (const auto& [b, of_b] : compared_) {
      if (a.rate_rps != b.rate_rps) continue;
      for (const auto& [name, d] : of_a) {
        const Deviation& other = of_b.at(name);
        if (other.measured_ms < kApart * d.measured_ms) continue;
        ++pairs;
        EXPECT_LT(d.simulated_ms, other.simulated_ms)
            << name << " at " << a.rate_rps << " of " << a.policy << " and "
            << b.policy;
      }
    }
  }
  EXPECT_GT(pairs, 100);
}

}  // namespace
}  // namespace interleave::sim
