#include "sim/fidelity/latencies.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/sim_time.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

using ::testing::HasSubstr;

constexpr char kTwoRequests[] =
    R"({"request_id": "a", "output_toks": 5, "queued_ts": 100.5,)"
    R"( "first_token_ts": 101.0, "last_token_ts": 101.4})"
    "\n"
    R"({"output_toks": 1, "queued_ts": 100.25, "first_token_ts": 100.5,)"
    R"( "last_token_ts": 100.5})";

TEST(ReadMeasuredRequestsTest, StartsTheClockAtTheFirstRequest) {
  ASSERT_OK_AND_ASSIGN(const std::vector<RequestTimes> requests,
                       ReadMeasuredRequests(kTwoRequests, "log"));
  ASSERT_EQ(requests.size(), 2);
  EXPECT_EQ(requests[0].arrival, SimTime::FromSeconds(0.25));
  EXPECT_EQ(requests[0].first_token, SimTime::FromSeconds(0.75));
  EXPECT_EQ(requests[1].arrival, SimTime::Zero());
  EXPECT_EQ(requests[1].output_tokens, 1);
}

TEST(ReadMeasuredRequestsTest, NamesTheLineThatIsWrong) {
  const auto expect = [](const std::string& text, const std::string& what) {
    EXPECT_THAT(ReadMeasuredRequests(text, "log"),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)));
  };
  expect("", "log: there is no request");
  expect("[1, 2]", "log:1: it is not a JSON object");
  expect("{\"output_toks\": 3", "log:1: it is not a JSON object");
  expect(std::string(kTwoRequests) + "\n{}",
         "log:3: there is no number \"output_toks\"");
  expect(R"({"output_toks": 0, "queued_ts": 1, "first_token_ts": 2,)"
         R"( "last_token_ts": 3})",
         "output_toks must be");
  expect(R"({"output_toks": 1, "queued_ts": 4, "first_token_ts": 2,)"
         R"( "last_token_ts": 3})",
         "in this order");
}

TEST(LatenciesTest, ByTheirDefinitions) {
  ASSERT_OK_AND_ASSIGN(const std::vector<RequestTimes> requests,
                       ReadMeasuredRequests(kTwoRequests, "log"));
  const Latencies latencies = LatenciesOf(requests);
  // TTFT 500 and 250 ms; TPOT of the first 400 / 4; E2E 900 and 250.
  EXPECT_NEAR(latencies.ttft.mean_nanos(), 375e6, 1);
  EXPECT_EQ(latencies.tpot.count(), 1);
  EXPECT_NEAR(latencies.tpot.mean_nanos(), 100e6, 1);
  EXPECT_NEAR(latencies.e2e.QuantileNanos(0.5), 575e6, 1);
  EXPECT_EQ(latencies.makespan, SimDuration::Seconds(1.15));
}

TEST(CompareTest, GivesRelativeErrors) {
  std::vector<RequestTimes> requests = {
      {2, SimTime::Zero(), SimTime::FromSeconds(1), SimTime::FromSeconds(2)}};
  const Latencies measured = LatenciesOf(requests);
  requests[0].first_token = SimTime::FromSeconds(1.1);
  requests[0].last_token = SimTime::FromSeconds(2);
  const std::vector<Deviation> deviations =
      Compare(measured, LatenciesOf(requests));
  ASSERT_EQ(deviations.size(), 16);
  EXPECT_EQ(deviations[0].statistic, "TTFT mean");
  EXPECT_NEAR(deviations[0].relative(), 0.1, 1e-9);
  EXPECT_EQ(deviations[9].statistic, "TPOT P99");
  EXPECT_NEAR(deviations[9].relative(), -0.1, 1e-9);
  EXPECT_EQ(deviations[15].statistic, "makespan");
  EXPECT_EQ(deviations[15].relative(), 0);
  EXPECT_THAT(ToTable(deviations), HasSubstr("+10.00%"));
}

}  // namespace
}  // namespace interleave::sim
