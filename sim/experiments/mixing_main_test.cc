#include "sim/experiments/mixing_main.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/file_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class MixingMainTest : public TempFolderTest {
 protected:
  struct Outcome {
    int status = -1;
    std::string out;
    std::string err;
  };

  Outcome Mix(std::vector<std::string> args) {
    std::ostringstream out;
    std::ostringstream err;
    MixingEnvironment environment;
    environment.out = &out;
    environment.err = &err;
    environment.default_workload =
        "sim/experiments/azure_like_conversation.csv";
    environment.interrupted = interrupted_;
    const int status = MixingMain(args, environment);
    return {status, out.str(), err.str()};
  }
  // Three policies, two rates, 60 requests.
  Outcome MixSmall(std::vector<std::string> args) {
    for (const char* flag :
         {"--policies=orca, stall_free{chunk_tokens: 256}, stall_free",
          "--rates=4,16", "--set=workload.num_requests=60"}) {
      args.insert(args.begin(), flag);
    }
    return Mix(args);
  }

  std::function<bool()> interrupted_;
};

TEST_F(MixingMainTest, TakesTheShippedProfileOfTheModelAndCard) {
  const Outcome h200 = MixSmall({"--out=" + Path("h200")});
  ASSERT_EQ(h200.status, 0) << h200.err;
  EXPECT_THAT(h200.out, HasSubstr("profile of llama3.1_8b on NVIDIA H200"));
  // Another card, or a choice of one's own, costs by that.
  const Outcome a100 =
      MixSmall({"--out=" + Path("a100"), "--set=cost.device=a100_80gb"});
  ASSERT_EQ(a100.status, 0) << a100.err;
  EXPECT_THAT(a100.out, HasSubstr("roofline of llama3.1_8b"));
  const Outcome roofline = MixSmall(
      {"--out=" + Path("roofline"), "--set=cost.roofline.constant_us=1"});
  ASSERT_EQ(roofline.status, 0) << roofline.err;
  EXPECT_THAT(roofline.out, HasSubstr("roofline of llama3.1_8b"));
}

TEST_F(MixingMainTest, WritesTableAndRuns) {
  const Outcome outcome = MixSmall({"--out=" + Path("out")});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("4 requests/s"), HasSubstr("16 requests/s"),
                    HasSubstr("6 simulations of"), HasSubstr(Path("out"))));
  EXPECT_THAT(NamesIn(root_ / "out"),
              ElementsAre("results.csv", "runs", "table.txt"));
  EXPECT_THAT(NamesIn(root_ / "out/runs/rate_16"),
              ElementsAre("orca", "stall_free", "stall_free_2"));
  EXPECT_THAT(NamesIn(root_ / "out/runs/rate_4/orca"),
              ElementsAre("config.textproto", "requests.csv", "summary.csv",
                          "summary.json"));
  const std::string csv = ReadWholeFile(root_ / "out/results.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 7);
  EXPECT_THAT(csv, HasSubstr("\n4,orca,"));
  EXPECT_THAT(csv, HasSubstr("\n16,stall_free{chunk_tokens: 256},"));
  // Each rate has a best row.
  for (const char* rate : {"4", "16"}) {
    EXPECT_THAT(csv, ::testing::ContainsRegex(std::string("\n") + rate +
                                              ",[^\n]*,1\n"));
  }
  EXPECT_EQ(
      outcome.out.substr(0, ReadWholeFile(root_ / "out/table.txt").size()),
      ReadWholeFile(root_ / "out/table.txt"));
}

TEST_F(MixingMainTest, RepeatsAreAveraged) {
  const Outcome outcome =
      MixSmall({"--out=" + Path("out"), "--repeats=3",
                "--set=device_time_jitter=0.02", "--policies=orca"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("Means of 3 runs each"),
                                 HasSubstr("6 simulations of")));
  EXPECT_THAT(
      NamesIn(root_ / "out"),
      ElementsAre("deviations.csv", "results.csv", "runs", "table.txt"));
  EXPECT_THAT(NamesIn(root_ / "out/runs/rate_16/orca"),
              ElementsAre("repeat_1", "repeat_2", "repeat_3"));
  const auto requests = [&](const std::string& repeat) {
    return ReadWholeFile(root_ / "out/runs/rate_16/orca" / repeat /
                         "requests.csv");
  };
  EXPECT_NE(requests("repeat_1"), requests("repeat_2"));
  EXPECT_NE(requests("repeat_2"), requests("repeat_3"));
  const std::string deviations = ReadWholeFile(root_ / "out/deviations.csv");
  EXPECT_EQ(std::count(deviations.begin(), deviations.end(), '\n'), 3);
  // The first of them is the run without repeats.
  ASSERT_EQ(MixSmall({"--out=" + Path("one"), "--policies=orca",
                      "--set=device_time_jitter=0.02"})
                .status,
            0);
  EXPECT_EQ(requests("repeat_1"),
            ReadWholeFile(root_ / "one/runs/rate_16/orca/requests.csv"));
}

TEST_F(MixingMainTest, ThreadsChangeNothing) {
  ASSERT_EQ(MixSmall({"--out=" + Path("a"), "--threads=1"}).status, 0);
  ASSERT_EQ(MixSmall({"--out=" + Path("b"), "--threads=4"}).status, 0);
  for (const char* name :
       {"results.csv", "table.txt", "runs/rate_16/orca/requests.csv",
        "runs/rate_4/stall_free_2/summary.csv"}) {
    EXPECT_EQ(ReadWholeFile(root_ / "a" / name),
              ReadWholeFile(root_ / "b" / name))
        << name;
  }
}

TEST_F(MixingMainTest, RefusesBadFlags) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--rates=4,fast", "\"fast\" is no rate"},
      {"--rates=0", "\"0\" is no rate"},
      {"--policies=orca,", "a name is missing"},
      {"--policies=orca{", "lacks a closing brace"},
      {"--policies=fifo", "no policy is called \"fifo\""},
      {"--policies=stall_free{chunks: 1}", "chunks"},
      {"--threads=0", "--threads=0"},
      {"--repeats=no", "--repeats=no"},
      {"--set=device_time_jitter=0.5", "device_time_jitter is 0.5"},
      {"--set=slo.ttft=1", "ttft_ms"},
      {"--rate=1", "did you mean --rates?"},
      {"--workload=/nowhere.csv", "/nowhere.csv"},
  };
  for (const auto& [flag, message] : cases) {
    const Outcome outcome = Mix({flag, "--out=" + Path("out")});
    EXPECT_EQ(outcome.status, 2) << flag;
    EXPECT_THAT(outcome.err, HasSubstr(message));
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(NamesIn(root_), IsEmpty()) << flag;
  }
}

TEST_F(MixingMainTest, RefusesAFolderInUseUnlessToldSo) {
  ASSERT_EQ(MixSmall({"--out=" + Path("out")}).status, 0);
  const Outcome refused = MixSmall({"--out=" + Path("out")});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("--overwrite"));
  EXPECT_EQ(MixSmall({"--out=" + Path("out"), "--overwrite"}).status, 0);
}

TEST_F(MixingMainTest, AnInterruptLeavesNothing) {
  interrupted_ = [] { return true; };
  EXPECT_EQ(MixSmall({"--out=" + Path("out")}).status, 130);
  EXPECT_THAT(NamesIn(root_), IsEmpty());
}

TEST_F(MixingMainTest, Helps) {
  const Outcome outcome = Mix({"--help"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, HasSubstr("--policies=NAME{OPTIONS},NAME,..."));
}

}  // namespace
}  // namespace interleave::sim
