#include "tools/simulate_main.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "base/file_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace interleave::tools {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

size_t CountLines(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

class SimulateMainTest : public TempFolderTest {
 protected:
  struct Outcome {
    int status = -1;
    std::string out;
    std::string err;
  };

  Outcome Simulate(const std::vector<std::string>& args) {
    std::ostringstream out;
    std::ostringstream err;
    SimulateEnvironment environment;
    environment.out = &out;
    environment.err = &err;
    environment.interrupted = interrupted_;
    const int status = SimulateMain(args, environment);
    return {status, out.str(), err.str()};
  }

  // 40 Poisson requests, and more flags.
  Outcome SimulateSmall(std::vector<std::string> args) {
    for (const char* flag : {"--workload=poisson", "--rate=20",
                             "--num_requests=40", "--policy=stall_free"}) {
      args.insert(args.begin(), flag);
    }
    return Simulate(args);
  }

  // Exit status 2, a message that says all of `parts`, and nothing written.
  void ExpectRefused(const std::vector<std::string>& args,
                     const std::vector<std::string>& parts) {
    const std::vector<std::string> before = NamesIn(root_);
    const Outcome outcome = Simulate(args);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    for (const std::string& part : parts) {
      EXPECT_THAT(outcome.err, HasSubstr(part));
    }
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(NamesIn(root_), before);
  }

  std::string Trace(const std::string& text) {
    std::ofstream(Path("trace.csv"), std::ios::binary) << text;
    return "--workload=" + Path("trace.csv");
  }
  std::string Out() { return "--out=" + Path("out"); }
  nlohmann::json Summary(const std::string& folder) {
    return nlohmann::json::parse(ReadWholeFile(Path(folder + "/summary.json")));
  }

  std::function<bool()> interrupted_;
};

constexpr char kAzure[] = "TIMESTAMP,ContextTokens,GeneratedTokens\n";

TEST_F(SimulateMainTest, WritesAWholeFolder) {
  const Outcome outcome = SimulateSmall({Out()});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("policy stall_free, model "
                                           "llama3.1_8b, device h200, seed 1"),
                                 HasSubstr("40 completed, 0 rejected"),
                                 HasSubstr("KV memory of llama3.1_8b on h200"),
                                 HasSubstr("Results are in ")));
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(NamesIn(root_), ElementsAre("out"));
  EXPECT_THAT(NamesIn(root_ / "out"),
              ElementsAre("config.textproto", "iterations.csv", "requests.csv",
                          "summary.csv", "summary.json"));
  const nlohmann::json summary = Summary("out");
  EXPECT_EQ(summary["requests"]["completed"], 40);
  EXPECT_EQ(CountLines(ReadWholeFile(Path("out/requests.csv"))), 41);
  EXPECT_EQ(CountLines(ReadWholeFile(Path("out/iterations.csv"))),
            summary["iterations"].get<size_t>() + 1);
  EXPECT_GT(summary["ttft_ms"]["p50"], 0);
  EXPECT_GE(summary["kv_blocks"]["total"], summary["kv_blocks"]["peak"]);
}

TEST_F(SimulateMainTest, TwoRunsWriteTheSame) {
  ASSERT_EQ(SimulateSmall({"--out=" + Path("a")}).status, 0);
  ASSERT_EQ(SimulateSmall({"--out=" + Path("b")}).status, 0);
  for (const char* name :
       {"config.textproto", "iterations.csv", "requests.csv", "summary.csv"}) {
    EXPECT_EQ(ReadWholeFile(root_ / "a" / name),
              ReadWholeFile(root_ / "b" / name))
        << name;
  }
  nlohmann::json a = Summary("a");
  nlohmann::json b = Summary("b");
  a.erase("simulator");
  b.erase("simulator");
  EXPECT_EQ(a.dump(), b.dump());
  ASSERT_EQ(SimulateSmall({"--seed=2", "--out=" + Path("c")}).status, 0);
  EXPECT_NE(ReadWholeFile(Path("a/requests.csv")),
            ReadWholeFile(Path("c/requests.csv")));
}

TEST_F(SimulateMainTest, TheConfigurationFedBackGivesTheSameRun) {
  ASSERT_EQ(SimulateSmall({"--out=" + Path("a"), "--max_num_seqs=5",
                           "--set=slo.ttft_ms=50"})
                .status,
            0);
  const Outcome again = Simulate(
      {"--config=" + Path("a/config.textproto"), "--out=" + Path("b")});
  ASSERT_EQ(again.status, 0) << again.err;
  for (const char* name :
       {"config.textproto", "iterations.csv", "requests.csv", "summary.csv"}) {
    EXPECT_EQ(ReadWholeFile(root_ / "a" / name),
              ReadWholeFile(root_ / "b" / name))
        << name;
  }
  EXPECT_EQ(Summary("a")["fingerprint"], Summary("b")["fingerprint"]);
}

TEST_F(SimulateMainTest, SteppedRunsAgreeWithFastOnes) {
  ASSERT_EQ(SimulateSmall({"--out=" + Path("a")}).status, 0);
  ASSERT_EQ(
      SimulateSmall({"--set=fast_forward=false", "--out=" + Path("b")}).status,
      0);
  EXPECT_EQ(ReadWholeFile(Path("a/iterations.csv")),
            ReadWholeFile(Path("b/iterations.csv")));
  EXPECT_EQ(ReadWholeFile(Path("a/requests.csv")),
            ReadWholeFile(Path("b/requests.csv")));
}

TEST_F(SimulateMainTest, SeveralSeeds) {
  const Outcome outcome = SimulateSmall({"--seeds=3", Out()});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("Means over 3 seeds"));
  EXPECT_THAT(
      NamesIn(root_ / "out"),
      ElementsAre("config.textproto", "seeds", "summary.csv", "summary.json"));
  EXPECT_THAT(NamesIn(root_ / "out/seeds"), ElementsAre("1", "2", "3"));
  const nlohmann::json all = Summary("out");
  double sum = 0;
  for (const char* seed : {"1", "2", "3"}) {
    sum += Summary(std::string("out/seeds/") + seed)["ttft_ms"]["mean"]
               .get<double>();
  }
  EXPECT_DOUBLE_EQ(all["ttft_ms"]["mean"], sum / 3);
  EXPECT_GT(all["confidence_95"]["ttft_ms"]["mean"], 0);
  // Seed 2 of three is seed 2 alone.
  ASSERT_EQ(SimulateSmall({"--seed=2", "--out=" + Path("two")}).status, 0);
  EXPECT_EQ(ReadWholeFile(Path("out/seeds/2/requests.csv")),
            ReadWholeFile(Path("two/requests.csv")));
}

TEST_F(SimulateMainTest, SaysWhereSeedsChangeNothing) {
  const Outcome outcome = Simulate(
      {Trace(std::string(kAzure) + "2023-11-16 18:15:46,10,2\n"), "--seeds=2"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("all seeds gave the same run"));
  EXPECT_EQ(SimulateSmall({"--seeds=2"}).err, "");
}

TEST_F(SimulateMainTest, PrefixesOfATraceAreFound) {
  const std::string trace = Trace(
      "arrival_s,prompt_tokens,output_tokens,prefix_id,prefix_tokens\n"
      "0,100,2,7,64\n10,100,2,7,64\n20,100,2,8,64\n");
  ASSERT_EQ(Simulate({trace, Out()}).status, 0);
  EXPECT_EQ(Summary("out")["prefix_hit_tokens"], 64);
  ASSERT_EQ(Simulate({trace, Out(), "--overwrite",
                      "--set=cache.enable_prefix_caching=false"})
                .status,
            0);
  EXPECT_EQ(Summary("out")["prefix_hit_tokens"], 0);
}

TEST_F(SimulateMainTest, ListsWhatThereIs) {
  const Outcome outcome = Simulate({"--list"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("\n  stall_free "), HasSubstr("\n  llama3.1_8b "),
                    HasSubstr("\n  h200 ")));
  EXPECT_EQ(Simulate({"--help"}).status, 0);
}

// ---- Bad input ----

TEST_F(SimulateMainTest, RefusesBadTraces) {
  const std::string file = Path("trace.csv");
  ExpectRefused({Trace(""), Out()}, {file + ":1:", "empty"});
  ExpectRefused({Trace(kAzure), Out()}, {file, "request"});
  ExpectRefused({Trace("a,b\n1,2\n"), Out()}, {file + ":1:", "azure2023"});
  // Truncated, not a number, negative, no output, a header once more.
  const std::string first = std::string(kAzure) + "2023-11-16 18:15:46,10,2\n";
  for (const char* line :
       {"2023-11-16 18:15:47,10", "2023-11-16 18:15:47,ten,2",
        "2023-11-16 18:15:47,-10,2", "2023-11-16 18:15:47,10,0",
        "yesterday,10,2", "TIMESTAMP,ContextTokens,GeneratedTokens"}) {
    ExpectRefused({Trace(first + line + "\n"), Out()}, {file + ":3:"});
  }
  ExpectRefused({"--workload=" + Path("missing.csv"), Out()},
                {"missing.csv", "no such file"});
  ExpectRefused({"--workload=" + root_.string(), Out()}, {root_.string()});
}

TEST_F(SimulateMainTest, TakesWhatIsMerelyOdd) {
  // Windows line ends, a byte order mark, no end of the last line.
  const Outcome odd =
      Simulate({Trace("\xEF\xBB\xBFTIMESTAMP,ContextTokens,GeneratedTokens\r\n"
                      "2023-11-16 18:15:46,10,2\r\n2023-11-16 18:15:47,10,2")});
  EXPECT_EQ(odd.status, 0) << odd.err;
  EXPECT_THAT(odd.out, HasSubstr("2 completed"));
  // Not in order: sorted, with a notice.
  const Outcome unsorted =
      Simulate({Trace(std::string(kAzure) + "2023-11-16 18:15:47,10,2\n"
                                            "2023-11-16 18:15:46,10,2\n")});
  EXPECT_EQ(unsorted.status, 0) << unsorted.err;
  EXPECT_THAT(unsorted.err, HasSubstr("note: "));
  EXPECT_THAT(unsorted.err, HasSubstr("sorted"));
}

TEST_F(SimulateMainTest, RejectsRequestsThatNeverFitAndGoesOn) {
  const std::string trace =
      Trace(std::string(kAzure) +
            "2023-11-16 18:15:46,10,2\n2023-11-16 18:15:47,10000000,2\n"
            "2023-11-16 18:15:48,2000,2\n2023-11-16 18:15:49,10,2\n");
  const Outcome outcome = Simulate({trace, Out(), "--num_blocks=100"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("2 completed, 2 rejected"));
  const nlohmann::json requests = Summary("out")["requests"];
  EXPECT_EQ(requests["rejections"]["exceeds_max_model_len"], 1);
  EXPECT_EQ(requests["rejections"]["exceeds_kv_cache"], 1);
  EXPECT_THAT(ReadWholeFile(Path("out/requests.csv")),
              HasSubstr("1,rejected,0,0,10000000,2,1.000000000,"));
}

TEST_F(SimulateMainTest, RefusesUnknownNames) {
  const std::vector<std::string> base = {"--workload=poisson", "--rate=1",
                                         Out()};
  const auto with = [&](const std::string& flag) {
    std::vector<std::string> args = base;
    args.push_back(flag);
    return args;
  };
  ExpectRefused(with("--policy=fifo"), {"\"fifo\"", "stall_free", "orca"});
  ExpectRefused(with("--policy_options=chunk: 1"), {"chunk"});
  ExpectRefused(with("--model=gpt"), {"\"gpt\"", "llama3.1_8b"});
  ExpectRefused(with("--device=tpu"), {"\"tpu\"", "h200"});
  ExpectRefused(with("--set=cost.gpu=1"), {"\"gpu\"", "device"});
  ExpectRefused(with("--set=executor=TPU"), {"COST_MODEL, KERNELS, BOTH"});
  ExpectRefused(with("--set=num_replicas=2"), {"num_replicas"});
  ExpectRefused(with("--speed=9"), {"no flag --speed"});
  ExpectRefused(with("--workload_format=parquet"), {"--workload"});
  ExpectRefused(with("--profile=" + Path("tables")), {"tables"});
}

// This test's program links no kernels in.
TEST_F(SimulateMainTest, RefusesKernelsWhereThereAreNone) {
  const auto with = [&](const std::string& flag) {
    return std::vector<std::string>{"--workload=poisson", "--rate=1",
                                    "--executor=kernels", Out(), flag};
  };
  for (const char* kind : {"--executor=kernels", "--executor=both"}) {
    const Outcome outcome = Simulate(with(kind));
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.err, HasSubstr("has no kernels"));
    EXPECT_THAT(outcome.err, HasSubstr("COST_MODEL"));
    EXPECT_THAT(NamesIn(root_), IsEmpty());
  }
  ExpectRefused(with("--model=mixtral_8x7b"), {"experts"});
  ExpectRefused(with("--model=qwen3_14b"), {"norms of queries and keys"});
  ExpectRefused(with("--set=cost.tensor_parallel=2"), {"one GPU"});
  ExpectRefused(with("--set=cache.num_host_blocks=9"),
                {"num_host_blocks is 9"});
  ExpectRefused(with("--set=async_scheduling=true"), {"async_scheduling"});
  ExpectRefused(with("--num_blocks=-1"), {"num_blocks -1"});
}

TEST_F(SimulateMainTest, RefusesLimitsThatCannotBe) {
  const std::vector<std::string> base = {"--workload=poisson", "--rate=1",
                                         Out()};
  for (const char* flag :
       {"--num_blocks=-1", "--block_size=0", "--max_num_seqs=0",
        "--max_num_batched_tokens=0", "--max_model_len=1",
        "--set=slo.ttft_ms=-1", "--set=cache.gpu_memory_utilization=2",
        "--set=cost.host_overhead.constant_us=-1",
        "--set=cost.tensor_parallel=0"}) {
    std::vector<std::string> args = base;
    args.push_back(flag);
    ExpectRefused(args, {"simulate: "});
  }
  // 70 billion weights do not fit 24 GB.
  ExpectRefused({"--workload=poisson", "--rate=1", "--model=llama3.1_70b",
                 "--device=rtx_4090", Out()},
                {"weights", "larger device"});
}

TEST_F(SimulateMainTest, RefusesAnOutputFolderThatIsInUse) {
  fs::create_directory(root_ / "out");
  std::ofstream(Path("out/notes.txt")) << "mine";
  ExpectRefused({"--workload=poisson", "--rate=5", Out()},
                {"not empty", "--overwrite"});
  EXPECT_THAT(NamesIn(root_ / "out"), ElementsAre("notes.txt"));
  const Outcome outcome = SimulateSmall({Out(), "--overwrite"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(ReadWholeFile(Path("out/notes.txt")), "mine");
  EXPECT_TRUE(fs::exists(root_ / "out/summary.json"));
}

TEST_F(SimulateMainTest, AFullDiskLeavesNothing) {
  Outcome outcome;
  {
    const FileSizeLimit limit(1000);
    outcome = SimulateSmall({Out()});
  }
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("out/requests.csv: cannot be written"));
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(NamesIn(root_), IsEmpty());
}

TEST_F(SimulateMainTest, AnInterruptLeavesNothing) {
  interrupted_ = [] { return true; };
  const Outcome outcome = SimulateSmall({Out(), "--seeds=2"});
  EXPECT_EQ(outcome.status, 130);
  EXPECT_THAT(NamesIn(root_), IsEmpty());
}

TEST_F(SimulateMainTest, TheErrorIsThatOfTheSeedThatFailed) {
  // Not that of those that were stopped for it.
  const Outcome outcome =
      SimulateSmall({"--seeds=4", "--policy_options=chunk_tokens: -5", Out()});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, Not(HasSubstr("stopped")));
  EXPECT_THAT(outcome.err, HasSubstr("chunk_tokens"));
}

}  // namespace
}  // namespace interleave::tools
