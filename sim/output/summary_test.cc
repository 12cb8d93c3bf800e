#include "sim/output/summary.h"

#include <string>
#include <vector>

#include "base/sim_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "sim/metrics/metrics.h"
#include "sim/run_result.h"

namespace interleave::sim {
namespace {

using Json = ::nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

SimTime Millis(double ms) { return SimTime::Zero() + SimDuration::Millis(ms); }

RequestRecord Completed(double ttft_ms) {
  RequestRecord record;
  record.prompt_tokens = 30;
  record.output_tokens = 11;
  record.first_scheduled = Millis(4);
  record.first_token = Millis(ttft_ms);
  record.last_token = Millis(ttft_ms + 100);
  record.longest_gap = SimDuration::Millis(25);
  record.slo = {.ttft = SimDuration::Millis(15),
                .tbt = SimDuration::Millis(25)};
  return record;
}

// Two completed requests and one rejected, in 0.12 s.
RunResult HandMade() {
  RunResult result;
  result.config.mutable_policy()->set_name("stall_free");
  result.config.set_seed(7);
  result.metrics.AddRequest(Completed(10));
  result.metrics.AddRequest(Completed(20));
  RequestRecord rejected;
  rejected.rejection = "exceeds_kv_cache: it takes 9 blocks";
  result.metrics.AddRequest(rejected);
  GapParts parts;
  parts.own_work = SimDuration::Millis(6);
  parts.prefill = SimDuration::Millis(3);
  parts.waiting = SimDuration::Millis(1);
  result.metrics.AddGap(parts, 20);
  IterationRecord iteration;
  iteration.end = Millis(60);
  iteration.host = SimDuration::Millis(6);
  iteration.prefill_tokens = 60;
  iteration.running = 2;
  iteration.used_blocks = 8;
  iteration.preemptions = 1;
  iteration.recomputed_tokens = 12;
  result.metrics.AddIteration(iteration);
  result.submitted = 3;
  result.kv_blocks_total = 16;
  result.kv_blocks_peak = 9;
  result.utilization = {.mfu = 0.25, .mbu = 0.5};
  result.cost.queries = 4;
  result.cost.outside_grid = 1;
  result.cost_description = "tables";
  result.notices = {"one", "two \"quoted\""};
  result.fingerprint = 0xabc;
  result.wall_seconds = 0.5;
  result.peak_rss_bytes = 1 << 20;
  return result;
}

std::vector<std::string> Keys(const Json& json) {
  std::vector<std::string> keys;
  for (const auto& item : json.items()) keys.push_back(item.key());
  return keys;
}

TEST(SummaryJsonTest, HasItsKeysInOrder) {
  const Json json = SummaryJson(HandMade());
  EXPECT_THAT(
      Keys(json),
      ElementsAre("run", "requests", "ttft_ms", "tpot_ms", "tbt_ms", "e2e_ms",
                  "queueing_delay_ms", "normalized_latency_ms_per_token",
                  "longest_tbt_ms", "throughput", "goodput", "slo_attainment",
                  "iterations", "preemptions", "recomputed_tokens",
                  "makespan_s", "kv_blocks", "prefix_hit_tokens", "tokens",
                  "occupancy", "utilization", "fairness_jain",
                  "interference_ledger", "cost_model", "notices", "fingerprint",
                  "simulator"));
  for (const char* key :
       {"ttft_ms", "tpot_ms", "tbt_ms", "e2e_ms", "queueing_delay_ms"}) {
    EXPECT_THAT(Keys(json[key]),
                ElementsAre("mean", "p50", "p90", "p95", "p99", "max"));
  }
}

TEST(SummaryJsonTest, ByHand) {
  const Json json = SummaryJson(HandMade());
  EXPECT_EQ(json["run"].dump(),
            R"({"policy":"stall_free","policy_options":"","model":)"
            R"("llama3.1_8b","device":"h200","seed":7})");
  EXPECT_EQ(json["ttft_ms"].dump(),
            R"({"mean":15.0,"p50":15.0,"p90":19.0,"p95":19.5,"p99":19.9,)"
            R"("max":20.0})");
  EXPECT_EQ(json["tpot_ms"]["mean"], 10.0);
  EXPECT_EQ(json["tbt_ms"]["p99"], 10.0);
  EXPECT_EQ(json["e2e_ms"]["max"], 120.0);
  EXPECT_EQ(json["queueing_delay_ms"]["p50"], 4.0);
  EXPECT_EQ(json["requests"].dump(),
            R"({"completed":2,"rejected":1,"rejections":)"
            R"({"exceeds_kv_cache":1}})");
  EXPECT_DOUBLE_EQ(json["throughput"]["requests_per_s"], 2 / 0.12);
  EXPECT_DOUBLE_EQ(json["throughput"]["output_tokens_per_s"], 22 / 0.12);
  EXPECT_DOUBLE_EQ(json["throughput"]["total_tokens_per_s"], 82 / 0.12);
  EXPECT_DOUBLE_EQ(json["goodput"]["requests_per_s"], 1 / 0.12);
  EXPECT_DOUBLE_EQ(json["slo_attainment"]["both"], 1.0 / 3);
  EXPECT_DOUBLE_EQ(json["slo_attainment"]["tbt"], 2.0 / 3);
  EXPECT_EQ(json["iterations"], 1);
  EXPECT_EQ(json["preemptions"], 1);
  EXPECT_EQ(json["recomputed_tokens"], 12);
  EXPECT_EQ(json["makespan_s"], 0.12);
  EXPECT_EQ(json["kv_blocks"].dump(), R"({"total":16,"peak":9})");
  EXPECT_EQ(json["occupancy"].dump(),
            R"({"mean_running_requests":2.0,"mean_kv_blocks":8.0,)"
            R"("mean_kv_share":0.5,"busy_share":0.5,"host_share":0.1,)"
            R"("prefill_iteration_share":1.0})");
  EXPECT_EQ(json["interference_ledger"].dump(),
            R"({"own_work_ms":120.0,"prefill_ms":60.0,"waiting_ms":20.0,)"
            R"("recomputation_ms":0.0,"total_ms":200.0,"own_work_share":0.6,)"
            R"("prefill_share":0.3,"waiting_share":0.1,)"
            R"("recomputation_share":0.0})");
  EXPECT_EQ(json["cost_model"].dump(),
            R"({"description":"tables","queries":4,"queries_outside_grid":1})");
  EXPECT_EQ(json["notices"].dump(), R"(["one","two \"quoted\""])");
  EXPECT_EQ(json["fingerprint"], "0000000000000abc");
  EXPECT_EQ(json["simulator"].dump(), R"({"wall_s":0.5,"iterations_per_s":2.0,)"
                                      R"("peak_rss_bytes":1048576})");
}

TEST(SummaryJsonTest, AnEmptyRunHasNumbersToo) {
  const Json json = SummaryJson(RunResult());
  EXPECT_EQ(json["ttft_ms"]["p99"], 0.0);
  EXPECT_EQ(json["throughput"]["requests_per_s"], 0.0);
  EXPECT_THAT(json.dump(), Not(HasSubstr("null")));
}

TEST(SummaryCsvTest, LeavesOutWhatDiffersFromRunToRun) {
  const std::string csv = SummaryCsv(SummaryJson(HandMade()));
  EXPECT_THAT(csv, ::testing::StartsWith(
                       "metric,value\nrun.seed,7\nrequests.completed,2\n"
                       "requests.rejected,1\n"
                       "requests.rejections.exceeds_kv_cache,1\n"
                       "ttft_ms.mean,15.0\nttft_ms.p50,15.0\n"));
  EXPECT_THAT(csv, HasSubstr("\nkv_blocks.peak,9\n"));
  EXPECT_THAT(csv, Not(HasSubstr("simulator")));
}

TEST(SummaryTextTest, SaysTheMainThings) {
  const std::string text = SummaryText(SummaryJson(HandMade()));
  EXPECT_THAT(text, HasSubstr("  TTFT                  15.00      15.00      "
                              "19.00      19.50      19.90      20.00\n"));
  EXPECT_THAT(text, HasSubstr("2 completed, 1 rejected\n"));
  EXPECT_THAT(text, HasSubstr("exceeds_kv_cache: 1\n"));
  EXPECT_THAT(text,
              HasSubstr("SLO attainment   33.3% (TTFT 33.3%, TBT 66.7%)"));
  EXPECT_THAT(text, HasSubstr("60.0% own work, 30.0% prefill of others"));
  EXPECT_THAT(text, HasSubstr("1 of 4 queries lie outside"));
}

TEST(CombineSeedsTest, MeansAndConfidence) {
  std::vector<Json> summaries;
  for (const double value : {1.0, 2.0, 6.0}) {
    Json json;
    json["run"]["policy"] = "orca";
    json["run"]["seed"] = static_cast<int>(value) + 10;
    json["ttft_ms"]["mean"] = value;
    json["iterations"] = 5;
    json["fingerprint"] = std::to_string(value);
    json["simulator"]["wall_s"] = value;
    if (value > 1) json["requests"]["rejections"]["too_long"] = 1;
    summaries.push_back(json);
  }
  // Mean 3, variance 7: 4.302653 x sqrt(7 / 3).
  const Json combined = CombineSeeds(summaries);
  EXPECT_EQ(combined["run"].dump(), R"({"policy":"orca","seeds":[11,12,16]})");
  EXPECT_EQ(combined["ttft_ms"]["mean"], 3.0);
  EXPECT_EQ(combined["iterations"], 5.0);
  EXPECT_EQ(combined["simulator"]["wall_s"], 3.0);
  EXPECT_FALSE(combined.contains("fingerprint"));
  EXPECT_FALSE(combined.contains("requests"));
  const Json& half = combined["confidence_95"];
  EXPECT_NEAR(half["ttft_ms"]["mean"].get<double>(), 6.572411, 1e-6);
  EXPECT_EQ(half["iterations"], 0.0);
  EXPECT_FALSE(half.contains("simulator"));
  EXPECT_FALSE(half.contains("run"));
}

TEST(StudentTTest, AgreesWithTables) {
  EXPECT_NEAR(StudentT975(1), 12.7062, 1e-4);
  EXPECT_NEAR(StudentT975(9), 2.2622, 1e-4);
  EXPECT_NEAR(StudentT975(11), 2.2010, 1e-4);
  EXPECT_NEAR(StudentT975(20), 2.0860, 1e-4);
  EXPECT_NEAR(StudentT975(100), 1.9840, 1e-4);
  EXPECT_NEAR(StudentT975(1000000), 1.95996, 1e-4);
}

}  // namespace
}  // namespace interleave::sim
