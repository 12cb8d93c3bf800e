#include "sim/metrics/metrics.h"

#include <cstdint>

#include "base/sim_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

SimTime Ms(int64_t ms) { return SimTime::FromNanos(ms * 1'000'000); }
SimDuration MsLong(int64_t ms) { return SimDuration::Nanos(ms * 1'000'000); }

RequestRecord Completed() {
  RequestRecord record;
  record.prompt_tokens = 100;
  record.output_tokens = 5;
  record.arrival = Ms(10);
  record.first_scheduled = Ms(15);
  record.first_token = Ms(30);
  record.last_token = Ms(70);
  record.longest_gap = MsLong(20);
  record.slo.ttft = MsLong(20);
  record.slo.tbt = MsLong(20);
  return record;
}

TEST(RequestRecordTest, LatenciesByTheirDefinitions) {
  const RequestRecord record = Completed();
  EXPECT_EQ(record.ttft(), MsLong(20));
  EXPECT_EQ(record.e2e(), MsLong(60));
  EXPECT_EQ(record.queueing_delay(), MsLong(5));
  EXPECT_DOUBLE_EQ(record.tpot_nanos(), 10e6);
  EXPECT_TRUE(record.attains_slo());
}

TEST(RequestRecordTest, SloBoundsAreInclusive) {
  RequestRecord record = Completed();
  record.slo.ttft = MsLong(20) - SimDuration::Nanos(1);
  EXPECT_FALSE(record.attains_slo());
  record = Completed();
  record.slo.tbt = MsLong(20) - SimDuration::Nanos(1);
  EXPECT_FALSE(record.attains_slo());
}

TEST(RequestRecordTest, OneTokenHasNoGap) {
  RequestRecord record = Completed();
  record.output_tokens = 1;
  record.last_token = record.first_token;
  EXPECT_EQ(record.tpot_nanos(), 0);
}

TEST(MetricsTest, CountsRequests) {
  Metrics metrics;
  metrics.AddRequest(Completed());
  RequestRecord late = Completed();
  late.first_token = Ms(31);
  metrics.AddRequest(late);
  RequestRecord rejected;
  rejected.rejection = "exceeds_kv_cache: it takes 9 blocks";
  metrics.AddRequest(rejected);
  EXPECT_EQ(metrics.completed(), 2);
  EXPECT_EQ(metrics.rejected(), 1);
  EXPECT_THAT(metrics.rejections(), ElementsAre(Pair("exceeds_kv_cache", 1)));
  EXPECT_EQ(metrics.attained_slo(), 1);
  EXPECT_EQ(metrics.attained_tbt(), 2);
  EXPECT_EQ(metrics.output_tokens(), 10);
  EXPECT_DOUBLE_EQ(metrics.ttft().mean_nanos(), 20.5e6);
  // First arrival (of the rejected one, at 0) to last token.
  EXPECT_EQ(metrics.makespan(), MsLong(70));
}

TEST(MetricsTest, LedgerSumsToTheGaps) {
  Metrics metrics;
  GapParts parts;
  parts.own_work = MsLong(4);
  parts.prefill = MsLong(3);
  parts.waiting = MsLong(2);
  parts.recomputation = MsLong(1);
  metrics.AddGap(parts, 3);
  EXPECT_EQ(metrics.tbt().count(), 3);
  EXPECT_DOUBLE_EQ(metrics.tbt().sum_nanos(), 30e6);
  EXPECT_DOUBLE_EQ(metrics.ledger().total(), 30e6);
  EXPECT_DOUBLE_EQ(metrics.ledger().prefill, 9e6);
}

TEST(MetricsTest, MeansAreOverBusyTime) {
  Metrics metrics;
  IterationRecord record;
  record.start = Ms(0);
  record.end = Ms(10);
  record.running = 4;
  record.used_blocks = 100;
  record.prefill_tokens = 7;
  metrics.AddIteration(record);
  record.start = Ms(50);
  record.end = Ms(80);
  record.running = 8;
  record.used_blocks = 20;
  record.prefill_tokens = 0;
  metrics.AddIteration(record);
  EXPECT_EQ(metrics.busy(), MsLong(40));
  EXPECT_DOUBLE_EQ(metrics.mean_running(), 7);
  EXPECT_DOUBLE_EQ(metrics.mean_used_blocks(), 40);
  EXPECT_EQ(metrics.iterations(), 2);
  EXPECT_EQ(metrics.prefill_iterations(), 1);
}

TEST(MetricsTest, PrefillPairsAreCausal) {
  Metrics metrics;
  // Queries 1..3 over a context of 2: 3 + 4 + 5.
  metrics.AddPrefillPairs(3, 2);
  EXPECT_EQ(metrics.prefill_pairs(), 12);
}

TEST(MetricsTest, JainIsOneForEqualServiceAndOneOverNForOne) {
  Metrics equal;
  RequestRecord record = Completed();
  equal.AddRequest(record);
  record.tenant = 2;
  equal.AddRequest(record);
  EXPECT_DOUBLE_EQ(equal.JainFairness(), 1);
  Metrics skewed;
  record.tenant = 0;
  record.prompt_tokens = 300;
  record.output_tokens = 0 + 5;
  skewed.AddRequest(record);
  record.tenant = 1;
  record.prompt_tokens = 95;
  skewed.AddRequest(record);
  // Services 305 and 100.
  EXPECT_NEAR(skewed.JainFairness(), 405.0 * 405 / (2 * (305.0 * 305 + 1e4)),
              1e-12);
}

}  // namespace
}  // namespace interleave::sim
