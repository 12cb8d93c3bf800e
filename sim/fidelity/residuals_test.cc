#include "sim/fidelity/residuals.h"

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

constexpr char kHeader[] =
    "iteration,replica,device_ms,host_ms,predicted_ms,prefill_chunks,"
    "prefill_tokens,prefill_context_tokens,decodes,decode_kv_tokens\n";

// Four decodes alone (+2%, -4%), a prompt (+10%), a mixed one (-1%).
constexpr char kRows[] =
    "0,0,10,0,10.2,0,0,0,4,4000\n"
    "1,0,10,0,9.6,0,0,0,40,40000\n"
    "2,0,50,0,55,2,600,1000,0,0\n"
    "3,0,20,0,19.8,1,100,0,4,4000\n";

std::vector<IterationResidual> Rows() {
  return ReadResiduals(absl::StrCat(kHeader, kRows), "i.csv").value();
}

std::vector<std::string> Labels(const std::vector<ResidualGroup>& groups) {
  std::vector<std::string> labels;
  for (const ResidualGroup& group : groups) labels.push_back(group.label);
  return labels;
}

TEST(ResidualsTest, ByHand) {
  const std::vector<ResidualGroup> groups = GroupResiduals(Rows(), nullptr);
  EXPECT_THAT(Labels(groups),
              ElementsAre("all", "prefill only", "decode only", "mixed",
                          "1 to 8 decodes alone", "33 to 64 decodes alone",
                          "1 to 128 tokens with prefill",
                          "513 to 1024 tokens with prefill"));
  const ResidualGroup& all = groups[0];
  EXPECT_EQ(all.count, 4);
  EXPECT_NEAR(all.measured_ms, 90, 1e-9);
  EXPECT_NEAR(all.mean_error, 0.17 / 4, 1e-12);
  EXPECT_NEAR(all.bias, 0.07 / 4, 1e-12);
  // 94.6 of 90 ms.
  EXPECT_NEAR(all.total_error, 4.6 / 90, 1e-12);
  // Rank 2.85 among 0.01, 0.02, 0.04, 0.10.
  EXPECT_NEAR(all.p95_error, 0.04 + 0.85 * 0.06, 1e-12);
  EXPECT_NEAR(groups[2].mean_error, 0.03, 1e-12);
  EXPECT_NEAR(groups[3].bias, -0.01, 1e-12);
  EXPECT_EQ(all.outside, 0);
}

TEST(ResidualsTest, OutsideTheGrid) {
  ProfileTables tables;
  tables.attention =
      ParseAttention(
          "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n"
          "16,0,0,0,1\n1024,0,0,0,1\n16,400,0,0,1\n1024,400,0,0,1\n"
          "0,0,1,16,1\n0,0,8,16,1\n0,0,1,2048,1\n0,0,8,2048,1\n"
          "16,0,1,16,1\n1024,0,8,2048,1\n16,0,8,16,1\n16,0,1,2048,1\n"
          "16,0,8,2048,1\n1024,0,1,16,1\n1024,0,1,2048,1\n1024,0,8,16,1\n",
          "attention.csv")
          .value();
  const std::vector<IterationResidual> rows = Rows();
  EXPECT_FALSE(OutsideGrid(tables, rows[0]));
  EXPECT_TRUE(OutsideGrid(tables, rows[1]));   // 40 decodes
  EXPECT_TRUE(OutsideGrid(tables, rows[2]));   // a mean context of 500
  EXPECT_FALSE(OutsideGrid(tables, rows[3]));  // 100 tokens beside 4
  const std::vector<ResidualGroup> groups = GroupResiduals(rows, &tables);
  EXPECT_EQ(groups[0].outside, 2);
  EXPECT_THAT(ToTable(groups), HasSubstr("all"));
}

TEST(ResidualsTest, Errors) {
  const auto read = [](const std::string& rows) {
    return ReadResiduals(absl::StrCat(kHeader, rows), "i.csv");
  };
  const auto invalid = [](const std::string& what) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what));
  };
  EXPECT_THAT(read(""), invalid("i.csv: there is no iteration"));
  EXPECT_THAT(read("0,0,10,0,0,0,0,0,4,4000\n"),
              invalid("i.csv:2: an iteration without a measured"));
  EXPECT_THAT(read("0,0,10,0,9,0,0,0,0,0\n"), invalid("no tokens"));
  EXPECT_THAT(read("0,0,10,0,9,0,0,0,-1,0\n"), invalid("decodes"));
  EXPECT_THAT(ReadResiduals("iteration\n1\n", "i.csv"), invalid("device_ms"));
}

}  // namespace
}  // namespace interleave::sim
