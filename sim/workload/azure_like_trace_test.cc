#include "sim/workload/azure_like_trace.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/sim_time.h"
#include "base/status_testing.h"
#include "base/text_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/request_spec.h"
#include "sim/workload/trace_reader.h"

namespace interleave::sim {
namespace {

using ::interleave::scheduler::RequestSpec;
using ::testing::IsEmpty;

constexpr char kShipped[] = "sim/experiments/azure_like_conversation.csv";

double Quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(
      share * static_cast<double>(values.size() - 1) + 0.5)];
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

TEST(AzureLikeTraceTest, TheShippedFileIsItsOutput) {
  EXPECT_THAT(ReadTextFile(kShipped), IsOkAndHolds(AzureLikeTrace(2000, 2023)));
}

TEST(AzureLikeTraceTest, SeedDecides) {
  EXPECT_EQ(AzureLikeTrace(10, 1), AzureLikeTrace(10, 1));
  EXPECT_NE(AzureLikeTrace(10, 1), AzureLikeTrace(10, 2));
}

// Against the figures of the real trace.
TEST(AzureLikeTraceTest, TheShippedFileHasTheStatistics) {
  ASSERT_OK_AND_ASSIGN(const TraceReadResult trace, ReadTrace(kShipped, ""));
  EXPECT_EQ(trace.format, TraceFormat::kAzure2023);
  EXPECT_THAT(trace.notices, IsEmpty());
  ASSERT_EQ(trace.requests.size(), 2000);
  std::vector<double> prompt;
  std::vector<double> output;
  std::vector<double> gaps;
  SimTime last = SimTime::Zero();
  for (const RequestSpec& spec : trace.requests) {
    prompt.push_back(spec.prompt_tokens);
    output.push_back(spec.output_tokens);
    if (spec.id > 0) gaps.push_back((spec.arrival - last).seconds());
    last = spec.arrival;
  }
  EXPECT_NEAR(Mean(prompt) / 1154.697, 1, 0.02);
  EXPECT_NEAR(Mean(output) / 211.126, 1, 0.02);
  EXPECT_NEAR(Quantile(prompt, 0.5), 1020, 5);
  EXPECT_NEAR(Quantile(prompt, 0.9), 2735, 60);
  EXPECT_NEAR(Quantile(prompt, 0.99), 4142, 50);
  EXPECT_NEAR(Quantile(output, 0.5), 129, 2);
  EXPECT_NEAR(Quantile(output, 0.9), 424, 2);
  EXPECT_NEAR(Quantile(output, 0.99), 601, 5);
  const double mean_gap = Mean(gaps);
  EXPECT_NEAR(mean_gap * 5.53, 1, 1e-6);
  double variance = 0;
  for (const double gap : gaps) {
    variance += (gap - mean_gap) * (gap - mean_gap) / 1999;
  }
  EXPECT_NEAR(std::sqrt(variance) / mean_gap, 1.094, 0.08);
}

}  // namespace
}  // namespace interleave::sim
