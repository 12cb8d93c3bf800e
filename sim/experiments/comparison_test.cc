#include "sim/experiments/comparison.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

using ::testing::ElementsAre;

ComparisonRow Row(double rate, double ttft, double tbt, double tokens) {
  ComparisonRow row;
  row.policy = "p";
  row.rate_rps = rate;
  row.ttft_p99_ms = ttft;
  row.tbt_p99_ms = tbt;
  row.output_tokens_per_s = tokens;
  return row;
}

std::vector<bool> Best(std::vector<ComparisonRow> rows) {
  MarkParetoBest(rows);
  std::vector<bool> best;
  for (const ComparisonRow& row : rows) best.push_back(row.pareto_best);
  return best;
}

TEST(ParetoTest, KeepsWhatIsBestInSomething) {
  EXPECT_THAT(Best({Row(1, 100, 10, 500), Row(1, 50, 20, 500),
                    Row(1, 100, 20, 500), Row(1, 200, 30, 600)}),
              ElementsAre(true, true, false, true));
}

TEST(ParetoTest, LoadsAreApart) {
  EXPECT_THAT(Best({Row(1, 100, 10, 500), Row(2, 200, 20, 400)}),
              ElementsAre(true, true));
}

TEST(ParetoTest, EqualRowsAreBothBest) {
  EXPECT_THAT(Best({Row(1, 100, 10, 500), Row(1, 100, 10, 500)}),
              ElementsAre(true, true));
  // A difference in the fourth digit is none.
  EXPECT_THAT(Best({Row(1, 100, 10, 500), Row(1, 100, 10, 500.4)}),
              ElementsAre(true, true));
  EXPECT_THAT(Best({Row(1, 100, 10, 500), Row(1, 100, 10, 502)}),
              ElementsAre(false, true));
  EXPECT_THAT(Best({Row(1, 0, 0, 0)}), ElementsAre(true));
}

TEST(OfRepeatsTest, ByHand) {
  std::vector<ComparisonRow> rows = {Row(2, 100, 10, 500), Row(2, 104, 10, 500),
                                     Row(2, 102, 10, 530)};
  rows[1].preemptions = 3;
  const RepeatedRow repeated = OfRepeats(rows);
  EXPECT_EQ(repeated.mean.policy, "p");
  EXPECT_EQ(repeated.mean.rate_rps, 2);
  EXPECT_DOUBLE_EQ(repeated.mean.ttft_p99_ms, 102);
  EXPECT_DOUBLE_EQ(repeated.mean.tbt_p99_ms, 10);
  EXPECT_DOUBLE_EQ(repeated.mean.output_tokens_per_s, 510);
  EXPECT_DOUBLE_EQ(repeated.mean.preemptions, 1);
  // (4 + 4 + 0) / 2.
  EXPECT_DOUBLE_EQ(repeated.deviation.ttft_p99_ms, 2);
  EXPECT_DOUBLE_EQ(repeated.deviation.tbt_p99_ms, 0);
  // (100 + 100 + 400) / 2.
  EXPECT_DOUBLE_EQ(repeated.deviation.output_tokens_per_s, std::sqrt(300.0));
}

TEST(OfRepeatsTest, OneRunIsItsOwnMean) {
  const RepeatedRow repeated = OfRepeats({Row(2, 100.1, 10.7, 500.3)});
  EXPECT_EQ(repeated.mean.ttft_p99_ms, 100.1);
  EXPECT_EQ(repeated.mean.output_tokens_per_s, 500.3);
  EXPECT_EQ(repeated.deviation.ttft_p99_ms, 0);
}

std::vector<ComparisonRow> TwoLoads() {
  std::vector<ComparisonRow> rows = {Row(2.5, 1234.4, 9.876, 500),
                                     Row(2.5, 99.96, 45.67, 498),
                                     Row(10, 8, 12.34, 2000)};
  rows[0].policy = "orca";
  rows[1].policy = "stall_free{chunk_tokens: 512}";
  rows[2].policy = "orca";
  for (ComparisonRow& row : rows) {
    row.ttft_p50_ms = 12.5;
    row.tbt_p50_ms = 6.25;
    row.requests_per_s = 2.5;
    row.slo_attainment = 0.987;
    row.interference = 0.25;
    row.preemptions = 3;
  }
  MarkParetoBest(rows);
  return rows;
}

TEST(ComparisonTableTest, Golden) {
  EXPECT_EQ(
      ComparisonTable(TwoLoads()),
      "2.5 requests/s                   TTFT P50   TTFT P99    TBT P99  output "
      "    SLO  inter-\n"
      "                                       ms         ms         ms  "
      "tokens/s   met  ference\n"
      "* orca                               12.5       1234       9.88       "
      "500   99%      25%\n"
      "* stall_free{chunk_tokens: 512}      12.5      100.0       45.7       "
      "498   99%      25%\n"
      "\n"
      "10 requests/s                    TTFT P50   TTFT P99    TBT P99  output "
      "    SLO  inter-\n"
      "                                       ms         ms         ms  "
      "tokens/s   met  ference\n"
      "* orca                               12.5       8.00       12.3      "
      "2000   99%      25%\n");
}

TEST(ComparisonCsvTest, Golden) {
  EXPECT_EQ(
      ComparisonCsv(TwoLoads()),
      "rate_requests_per_s,policy,ttft_p50_ms,ttft_p99_ms,tbt_p50_ms,"
      "tbt_p99_ms,throughput_requests_per_s,throughput_output_tokens_per_s,"
      "slo_attainment,interference_share,preemptions,pareto_best\n"
      "2.5,orca,12.5,1234.4,6.25,9.876,2.5,500,0.987,0.25,3,1\n"
      "2.5,stall_free{chunk_tokens: 512},12.5,99.96,6.25,45.67,2.5,498,0.987,"
      "0.25,3,1\n"
      "10,orca,12.5,8,6.25,12.34,2.5,2000,0.987,0.25,3,1\n");
}

}  // namespace
}  // namespace interleave::sim
