#include "sim/fidelity/run_comparison.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// A run of one request of three tokens, its times in ms.
void WriteRun(const std::string& folder, double ttft, double e2e) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/requests.csv")
      << "request_id,status,output_tokens,arrival_s,first_token_s,"
         "last_token_s\n0,completed,3,1,"
      << absl::StrCat(1 + ttft / 1000, ",", 1 + e2e / 1000)
      << "\n1,rejected,0,1,,\n";
}

std::string Root(const std::string& name) {
  const std::string root = absl::StrCat(::testing::TempDir(), "/", name);
  std::filesystem::remove_all(root);
  return root;
}

TEST(FoldersWithTest, BelowAndItself) {
  const std::string root = Root("folders");
  WriteRun(root + "/rate_2/b", 1, 2);
  WriteRun(root + "/rate_2/a", 1, 2);
  std::filesystem::create_directories(root + "/empty");
  EXPECT_THAT(FoldersWith(root, "requests.csv"),
              IsOkAndHolds(ElementsAre("rate_2/a", "rate_2/b")));
  EXPECT_THAT(FoldersWith(root + "/rate_2/a", "requests.csv"),
              IsOkAndHolds(ElementsAre("")));
  EXPECT_THAT(FoldersWith(root + "/empty", "requests.csv"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("there is no requests.csv")));
  EXPECT_THAT(FoldersWith("/no/such", "requests.csv"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such")));
}

TEST(PairRunsTest, DeviationsByHand) {
  const std::string root = Root("pairs");
  WriteRun(root + "/m/rate_2/orca", 100, 300);
  WriteRun(root + "/s/rate_2/orca", 102, 306);
  WriteRun(root + "/m/rate_2/alone", 1, 2);
  ASSERT_OK_AND_ASSIGN(const std::vector<RunPair> pairs,
                       PairRuns(root + "/m", root + "/s"));
  ASSERT_THAT(pairs, SizeIs(1));
  EXPECT_EQ(pairs[0].load(), "rate_2");
  EXPECT_EQ(pairs[0].policy(), "orca");
  ASSERT_THAT(pairs[0].deviations, SizeIs(6));
  EXPECT_EQ(pairs[0].deviations[0].statistic, "TTFT mean");
  EXPECT_NEAR(pairs[0].deviations[0].relative(), 0.02, 1e-9);
  EXPECT_EQ(pairs[0].deviations[3].statistic, "TPOT P90");
  // (306 - 102) / 2 of (300 - 100) / 2.
  EXPECT_NEAR(pairs[0].deviations[3].relative(), 0.02, 1e-9);
  EXPECT_THAT(ToTable(pairs), HasSubstr("largest error 2.00%"));
  EXPECT_THAT(PairRuns(root + "/m/rate_2/alone", root + "/s"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("same name")));
}

TEST(PairRunsTest, AveragesRepeats) {
  const std::string root = Root("repeats");
  WriteRun(root + "/m/rate_2/orca/repeat_1", 100, 300);
  WriteRun(root + "/m/rate_2/orca/repeat_2", 104, 304);
  WriteRun(root + "/s/rate_2/orca", 102, 306);
  ASSERT_OK_AND_ASSIGN(const std::vector<RunPair> pairs,
                       PairRuns(root + "/m", root + "/s"));
  ASSERT_THAT(pairs, SizeIs(1));
  EXPECT_EQ(pairs[0].name, "rate_2/orca");
  EXPECT_EQ(pairs[0].measured_runs, 2u);
  EXPECT_EQ(pairs[0].simulated_runs, 1u);
  const Deviation& ttft = pairs[0].deviations[0];
  EXPECT_NEAR(ttft.measured_ms, 102, 1e-6);
  // Each is 2 off: (4 + 4) / 1.
  EXPECT_NEAR(ttft.measured_deviation_ms, std::sqrt(8.0), 1e-6);
  EXPECT_NEAR(ttft.relative(), 0, 1e-9);
  EXPECT_EQ(ttft.simulated_deviation_ms, 0);
  EXPECT_THAT(ToTable(pairs),
              HasSubstr("102.00 +- 2.83            102.00   +0.00%"));
}

TEST(CompareRankingsTest, NamesWhatIsTheWrongWayRound) {
  const std::string root = Root("ranks");
  WriteRun(root + "/m/rate_2/orca", 100, 300);
  WriteRun(root + "/m/rate_2/chunked", 110, 290);
  // TTFT the wrong way round, E2E right.
  WriteRun(root + "/s/rate_2/orca", 106, 300);
  WriteRun(root + "/s/rate_2/chunked", 105, 295);
  // Another load is another ranking.
  WriteRun(root + "/m/rate_4/orca", 1, 2);
  WriteRun(root + "/s/rate_4/orca", 1000, 2000);
  ASSERT_OK_AND_ASSIGN(const std::vector<RunPair> pairs,
                       PairRuns(root + "/m", root + "/s"));
  const std::vector<Swap> swaps = CompareRankings(pairs);
  ASSERT_THAT(swaps, SizeIs(2));
  EXPECT_EQ(swaps[0].statistic, "TTFT mean");
  EXPECT_EQ(swaps[1].statistic, "TTFT P90");
  EXPECT_EQ(swaps[0].better, "orca");
  EXPECT_EQ(swaps[0].worse, "chunked");
  EXPECT_NEAR(swaps[0].measured_gap, 0.1, 1e-9);
  EXPECT_THAT(ToText(swaps),
              HasSubstr("rate_2, TTFT mean: orca is better than chunked by "
                        "10.00%, simulated worse"));
  EXPECT_THAT(ToText({}), HasSubstr("rank the same"));
}

}  // namespace
}  // namespace interleave::sim
