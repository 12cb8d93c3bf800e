#include "sim/fidelity/closed_loop.h"

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/parallel_for.h"
#include "base/public_data.h"
#include "base/status_testing.h"
#include "base/text_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/config/simulation.pb.h"
#include "sim/cost/text_proto.h"

namespace interleave::sim {
namespace {

using ::testing::HasSubstr;

constexpr char kTwoPoints[] =
    "exp_id,model,hardware,tp,precision,engine,max_num_batched_tokens,"
    "max_num_seqs,gpu_mem_util,concurrency,input_len_spec,output_len_spec,"
    "prefix_reuse,n_requests,metric,actual_ms,pred_aiconfigurator,"
    "pred_aisimulate\n"
    "a,nvidia/Llama-3.3-70B-Instruct-FP8,H100,4,fp8,v1,8192,16,0.9,16,"
    "\"uniform[0.8*1024,1024]\",\"uniform[0.8*8192,8192] ignore_eos\",off,160,"
    "ttft,100,200,110\n"
    "b,Qwen/Qwen3-32B,H100,2,bf16?,v2,,,,8,1024,128,random,,tpot,18,,\n"
    "a,nvidia/Llama-3.3-70B-Instruct-FP8,H100,4,fp8,v1,8192,16,0.9,16,"
    "\"uniform[0.8*1024,1024]\",\"uniform[0.8*8192,8192] ignore_eos\",off,160,"
    "tpot,10,9,10.5\n"
    "b,Qwen/Qwen3-32B,H100,2,bf16?,v2,,,,8,1024,128,random,,ttft,150,,\n";

TEST(ReadClosedLoopPointsTest, JoinsTheRowsOfAMeasurement) {
  ASSERT_OK_AND_ASSIGN(const std::vector<ClosedLoopPoint> points,
                       ReadClosedLoopPoints(kTwoPoints, "table"));
  ASSERT_EQ(points.size(), 2);
  const ClosedLoopPoint& a = points[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.tensor_parallel, 4);
  EXPECT_EQ(a.users, 16);
  EXPECT_EQ(a.prompt.min, 819);
  EXPECT_EQ(a.prompt.max, 1024);
  EXPECT_EQ(a.output.min, 6553);
  EXPECT_EQ(a.output.max, 8192);
  EXPECT_EQ(a.num_requests, 160);
  EXPECT_EQ(a.max_num_seqs, 16);
  EXPECT_EQ(a.max_num_batched_tokens, 8192);
  EXPECT_EQ(a.measured.ttft, 100);
  EXPECT_EQ(a.measured.tpot, 10);
  ASSERT_TRUE(a.aiconfigurator.has_value() && a.aisimulate.has_value());
  EXPECT_EQ(a.aiconfigurator->ttft, 200);
  EXPECT_EQ(a.aisimulate->tpot, 10.5);
  const ClosedLoopPoint& b = points[1];
  EXPECT_EQ(b.prompt.min, 1024);
  EXPECT_EQ(b.output.max, 128);
  EXPECT_EQ(b.num_requests, 0);
  EXPECT_EQ(b.max_num_seqs, 0);
  EXPECT_EQ(b.measured.ttft, 150);
  EXPECT_FALSE(b.aiconfigurator.has_value());
}

TEST(ReadClosedLoopPointsTest, NamesWhatIsWrong) {
  const auto expect = [](const std::string& from, const std::string& to,
                         const std::string& what) {
    EXPECT_THAT(ReadClosedLoopPoints(
                    absl::StrReplaceAll(kTwoPoints, {{from, to}}), "table"),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)));
  };
  expect("exp_id", "id", "table:1: there is no column \"exp_id\"");
  expect("ttft,100,", "ttft,100,,", "table:2: it has 19 fields");
  expect("ttft,100,", "e2e,100,", "table:2: metric must be ttft or tpot");
  expect("ttft,100,", "ttft,0,", "table:2: actual_ms must be above 0");
  expect("v2,,,,8,", "v2,,,,0,", "table:3: concurrency: ");
  expect("uniform[0.8*1024,1024]", "uniform[0.8*1024,2048]",
         "table:2: input_len_spec: not uniform[SHARE*TOKENS,TOKENS]");
  expect(",1024,128,random", ",some,128,random", "table:3: input_len_spec: ");
  expect("random,,ttft,150", "random,,tpot,150",
         "table:3: \"b\" has no row of one of ttft and tpot");
  EXPECT_THAT(ReadClosedLoopPoints("", "table"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("there is no column")));
}

absl::StatusOr<SimulationConfig> ReadServer(const ClosedLoopPoint& point) {
  const std::string path =
      absl::StrCat("sim/fidelity/", ClosedLoopServerFile(point));
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  SimulationConfig server;
  RETURN_IF_ERROR(ParseTextProto(text, path, &server));
  return server;
}

TEST(ClosedLoopRunTest, StatedSettingsAndAssumedOnes) {
  ASSERT_OK_AND_ASSIGN(const std::vector<ClosedLoopPoint> points,
                       ReadClosedLoopPoints(kTwoPoints, "table"));
  ASSERT_OK_AND_ASSIGN(const SimulationConfig llama, ReadServer(points[0]));
  ASSERT_OK_AND_ASSIGN(const SimulationConfig stated,
                       ClosedLoopRun(points[0], llama));
  EXPECT_EQ(stated.cost().tensor_parallel(), 4);
  EXPECT_EQ(stated.limits().max_num_seqs(), 16);
  EXPECT_EQ(stated.limits().max_num_batched_tokens(), 8192);
  EXPECT_EQ(stated.workload().num_requests(), 160);
  EXPECT_EQ(stated.workload().generator().prompt_tokens().uniform().min(), 819);
  const auto& loop = stated.workload().arrival().closed_loop();
  EXPECT_EQ(loop.users(), 16);
  EXPECT_NEAR(loop.think_time_s(), 0.0012, 1e-12);
  EXPECT_NEAR(loop.start_gap_s(), 0.0012, 1e-12);

  ASSERT_OK_AND_ASSIGN(const SimulationConfig qwen, ReadServer(points[1]));
  ASSERT_OK_AND_ASSIGN(const SimulationConfig assumed,
                       ClosedLoopRun(points[1], qwen));
  EXPECT_EQ(assumed.limits().max_num_seqs(), 1024);
  EXPECT_EQ(assumed.limits().max_num_batched_tokens(), 1024 + 1500 + 8);
  EXPECT_EQ(assumed.workload().num_requests(), 80);
  EXPECT_EQ(assumed.workload().generator().output_tokens().fixed().tokens(),
            128);
  // 79,6 GiB x 0.9 less 30.5 GiB of weights, about 1 GiB of activations, 3.6
  // GiB to sort 1,024 x 151,936 logits, over 2 MiB a block.
  EXPECT_GT(assumed.cache().num_blocks(), 18'000);
  EXPECT_LT(assumed.cache().num_blocks(), 19'000);

  // What the server's settings say stays.
  SimulationConfig other = qwen;
  other.mutable_limits()->set_max_num_batched_tokens(77);
  other.mutable_cache()->set_num_blocks(99);
  ASSERT_OK_AND_ASSIGN(const SimulationConfig kept,
                       ClosedLoopRun(points[1], other));
  EXPECT_EQ(kept.limits().max_num_batched_tokens(), 77);
  EXPECT_EQ(kept.cache().num_blocks(), 99);
}

TEST(ClosedLoopErrorsTest, ByHand) {
  ASSERT_OK_AND_ASSIGN(const std::vector<ClosedLoopPoint> points,
                       ReadClosedLoopPoints(kTwoPoints, "table"));
  ClosedLoopPoint faster = points[0];
  faster.tensor_parallel = 8;
  const std::vector<ClosedLoopResult> results = {
      {points[0], {110, 9}}, {faster, {80, 10}}, {points[1], {150, 27}}};
  const std::vector<ClosedLoopErrors> errors = SummarizeClosedLoop(results);
  ASSERT_EQ(errors.size(), 5);
  EXPECT_EQ(errors[0].group, "Qwen/Qwen3-32B");
  EXPECT_EQ(errors[0].points, 1);
  EXPECT_NEAR(errors[0].mean_absolute.tpot, 0.5, 1e-9);
  EXPECT_EQ(errors[1].points, 2);
  EXPECT_NEAR(errors[1].mean_absolute.ttft, 0.15, 1e-9);
  EXPECT_NEAR(errors[1].bias.ttft, -0.05, 1e-9);
  EXPECT_NEAR(errors[1].bias.tpot, -0.05, 1e-9);
  EXPECT_EQ(errors[3].group, "nvidia/Llama-3.3-70B-Instruct-FP8 TP 4");
  // The estimators say nothing of Qwen.
  const std::vector<ClosedLoopErrors> others = CompareEstimators(results);
  ASSERT_EQ(others.size(), 3);
  EXPECT_EQ(others[0].group,
            "nvidia/Llama-3.3-70B-Instruct-FP8 by AIConfigurator");
  EXPECT_NEAR(others[0].mean_absolute.ttft, 1.0, 1e-9);
  EXPECT_NEAR(others[1].mean_absolute.tpot, 0.05, 1e-9);
  EXPECT_NEAR(others[2].mean_absolute.ttft, 0.15, 1e-9);
  EXPECT_THAT(ToTable(results), HasSubstr("+50.0%"));
  EXPECT_THAT(ToTable(errors), HasSubstr("Qwen/Qwen3-32B TP 2"));
}

// See docs/fidelity.md.
TEST(ClosedLoopTest, VllmOnH100) {
  const std::string data = PublicDataFolder();
  if (data.empty()) {
    GTEST_SKIP() << "INTERLEAVE_DATA names no folder of public measurements";
  }
  ASSERT_OK_AND_ASSIGN(
      const std::string text,
      ReadTextFile(absl::StrCat(data, "/closed_loop/h100_vllm.csv")));
  ASSERT_OK_AND_ASSIGN(const std::vector<ClosedLoopPoint> points,
                       ReadClosedLoopPoints(text, "h100_vllm.csv"));
  std::vector<ClosedLoopResult> results;
  for (const ClosedLoopPoint& point : points) {
    if (!ClosedLoopServerFile(point).empty()) results.push_back({point, {}});
  }
  ASSERT_EQ(results.size(), 45 + 90);
  ParallelFor(results.size(), 0, [&](size_t i) {
    absl::StatusOr<SimulationConfig> server = ReadServer(results[i].point);
    ASSERT_OK(server);
    server->mutable_cost()->mutable_kernel_tables()->set_directory(
        absl::StrCat(data, "/kernel_tables"));
    const auto simulated = SimulateClosedLoop(results[i].point, *server);
    ASSERT_OK(simulated);
    results[i].simulated = *simulated;
  });
  const std::vector<ClosedLoopErrors> errors = SummarizeClosedLoop(results);
  ASSERT_EQ(errors.size(), 2 + 6);
  EXPECT_EQ(errors[0].group, "Qwen/Qwen3-32B");
  EXPECT_LE(errors[0].mean_absolute.tpot, 0.08);
  EXPECT_LE(errors[0].mean_absolute.ttft, 0.20);
  EXPECT_EQ(errors[1].group, "nvidia/Llama-3.3-70B-Instruct-FP8");
  EXPECT_LE(errors[1].mean_absolute.tpot, 0.06);
  EXPECT_LE(errors[1].mean_absolute.ttft, 0.15);
}

}  // namespace
}  // namespace interleave::sim
