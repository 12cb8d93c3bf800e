#include "tools/simulate_flags.h"

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/config/simulation.pb.h"

namespace interleave::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string TempFile(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

absl::StatusOr<SimulateRequest> Parse(const std::vector<std::string>& args) {
  return ParseSimulateFlags(args);
}

void ExpectRefused(const std::vector<std::string>& args,
                   const std::string& message) {
  EXPECT_THAT(Parse(args),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)))
      << ::testing::PrintToString(args);
}

TEST(SimulateFlagsTest, Generators) {
  ASSERT_OK_AND_ASSIGN(
      const SimulateRequest request,
      Parse({"--workload=gamma", "--rate=4", "--cv=3", "--num_requests=50",
             "--seed=9", "--policy=stall_free",
             "--policy_options=chunk_tokens: 256", "--model=qwen3_14b",
             "--device=h100_sxm", "--num_blocks=100", "--block_size=32",
             "--max_num_seqs=8", "--max_num_batched_tokens=512", "--out=o",
             "--overwrite"}));
  const sim::SimulationConfig& config = request.config;
  EXPECT_EQ(config.workload().arrival().gamma().rate_rps(), 4);
  EXPECT_EQ(config.workload().arrival().gamma().cv(), 3);
  EXPECT_EQ(config.workload().num_requests(), 50);
  EXPECT_EQ(config.workload().generator().prompt_tokens().lognormal().mean(),
            1000);
  EXPECT_EQ(config.seed(), 9);
  EXPECT_EQ(config.policy().name(), "stall_free");
  EXPECT_EQ(config.policy().options(), "chunk_tokens: 256");
  EXPECT_EQ(config.cost().model(), "qwen3_14b");
  EXPECT_EQ(config.cost().device(), "h100_sxm");
  EXPECT_EQ(config.cache().num_blocks(), 100);
  EXPECT_EQ(config.cache().block_size(), 32);
  EXPECT_EQ(config.limits().max_num_seqs(), 8);
  EXPECT_EQ(config.limits().max_num_batched_tokens(), 512);
  EXPECT_EQ(request.out, "o");
  EXPECT_TRUE(request.overwrite);
}

TEST(SimulateFlagsTest, Executors) {
  for (const auto& [text, kind] :
       {std::pair("cost_model", sim::SimulationConfig::COST_MODEL),
        std::pair("kernels", sim::SimulationConfig::KERNELS),
        std::pair("both", sim::SimulationConfig::BOTH)}) {
    ASSERT_OK_AND_ASSIGN(const SimulateRequest request,
                         Parse({"--workload=poisson", "--rate=1",
                                std::string("--executor=") + text}));
    EXPECT_EQ(request.config.executor(), kind);
  }
  ExpectRefused({"--workload=poisson", "--rate=1", "--executor=gpu"},
                "--executor=gpu: it must be cost_model, kernels or both");
}

TEST(SimulateFlagsTest, ClosedLoopAndLengths) {
  const std::string lengths =
      TempFile("lengths.csv", "num_prefill_tokens,num_decode_tokens\n5,6\n");
  ASSERT_OK_AND_ASSIGN(
      SimulateRequest request,
      Parse({"--workload=closed_loop", "--users=3", "--lengths=" + lengths,
             "--workload_format=lengths"}));
  const sim::WorkloadConfig& workload = request.config.workload();
  EXPECT_EQ(workload.arrival().closed_loop().users(), 3);
  EXPECT_EQ(workload.generator().length_pairs().path(), lengths);
  EXPECT_EQ(workload.generator().length_pairs().format(), "lengths");
  EXPECT_FALSE(workload.generator().has_prompt_tokens());

  // A trace without arrivals gets them from --rate or --users.
  ASSERT_OK_AND_ASSIGN(request, Parse({"--workload=" + lengths, "--rate=2"}));
  EXPECT_EQ(request.config.workload().arrival().poisson().rate_rps(), 2);
  EXPECT_FALSE(request.config.workload().trace().has_rate_rps());
  ASSERT_OK_AND_ASSIGN(request, Parse({"--workload=" + lengths, "--users=2"}));
  EXPECT_EQ(request.config.workload().arrival().closed_loop().users(), 2);
}

TEST(SimulateFlagsTest, ATracesArrivalsAreScaled) {
  const std::string trace = TempFile(
      "trace.csv",
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,1,1\n");
  ASSERT_OK_AND_ASSIGN(const SimulateRequest request,
                       Parse({"--workload=" + trace, "--rate", "2.5"}));
  EXPECT_EQ(request.config.workload().trace().path(), trace);
  EXPECT_EQ(request.config.workload().trace().rate_rps(), 2.5);
  EXPECT_FALSE(request.config.workload().has_arrival());
}

TEST(SimulateFlagsTest, LaterWins) {
  const std::string config =
      TempFile("config.textproto",
               "seed: 5 policy { name: \"orca\" }\n"
               "workload { arrival { poisson { rate_rps: 1 } } }\n");
  ASSERT_OK_AND_ASSIGN(
      const SimulateRequest request,
      Parse({"--set=seed=7", "--set=limits.max_num_seqs=3",
             "--config=" + config, "--seed=6", "--rate=8",
             "--set=workload.generator.prompt_tokens.fixed.tokens=10"}));
  EXPECT_EQ(request.config.seed(), 7);
  EXPECT_EQ(request.config.limits().max_num_seqs(), 3);
  EXPECT_EQ(request.config.policy().name(), "orca");
  EXPECT_EQ(request.config.workload().arrival().poisson().rate_rps(), 8);
  EXPECT_EQ(
      request.config.workload().generator().prompt_tokens().fixed().tokens(),
      10);
}

TEST(SimulateFlagsTest, RefusesWhatMakesNoSense) {
  ExpectRefused({}, "there is no workload; pass --workload=FILE");
  ExpectRefused({"--workload=poisson"}, "wants --rate=REQUESTS_PER_S");
  ExpectRefused({"--workload=closed_loop"}, "wants --users=N");
  ExpectRefused({"--workload=poisson", "--rate=fast"},
                "--rate=fast: it must be a number above 0");
  ExpectRefused({"--workload=poisson", "--rate=-1"}, "above 0");
  ExpectRefused({"--workload=poisson", "--rate=nan"}, "above 0");
  ExpectRefused({"--workload=poisson", "--rate=1", "--num_requests=0"},
                "--num_requests=0: it must be a whole number from 1");
  ExpectRefused({"--workload=poisson", "--rate=1", "--cv=2"},
                "--cv is for --workload=gamma");
  ExpectRefused({"--workload=poisson", "--rate=1", "--users=2"},
                "--users is for");
  ExpectRefused({"--workload=closed_loop", "--users=2", "--rate=1"},
                "a closed loop takes --users");
  ExpectRefused({"--workload=poisson", "--rate=1", "--workload_format=lengths"},
                "--workload names none");
  ExpectRefused({"--workload=poisson", "--rate=1", "--seeds=0"},
                "--seeds=0: it must be a whole number from 1 to 10000");
  ExpectRefused({"--workload=poisson", "--rate=1", "--num_blocks=many"},
                "--num_blocks=many: \"cache.num_blocks\" cannot be \"many\"");
  ExpectRefused({"--workload=poisson", "--rate=1", "--set=limits.max_seqs=1"},
                "its fields are: max_model_len, max_num_batched_tokens, "
                "max_num_seqs");
  ExpectRefused({"--workload=poisson", "--rate=1", "--polcy=orca"},
                "did you mean --policy?");
  EXPECT_THAT(Parse({"--workload=poison", "--rate=1"}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("generators are poisson, gamma")));
  EXPECT_THAT(
      Parse({"--config=/nowhere/config"}),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/config")));
}

TEST(SimulateFlagsTest, NamesTheLineOfABadConfig) {
  const std::string config =
      TempFile("bad.textproto", "seed: 5\n\nlimits { max_seqs: 3 }\n");
  EXPECT_THAT(
      Parse({"--config=" + config}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("bad.textproto:3:"), HasSubstr("max_seqs"))));
}

TEST(SimulateFlagsTest, ListAndHelpNeedNoWorkload) {
  ASSERT_OK_AND_ASSIGN(SimulateRequest request, Parse({"--list"}));
  EXPECT_TRUE(request.list);
  ASSERT_OK_AND_ASSIGN(request, Parse({"--help"}));
  EXPECT_TRUE(request.help);
  EXPECT_THAT(SimulateHelp(), HasSubstr("--policy_options=TEXTPROTO"));
}

}  // namespace
}  // namespace interleave::tools
