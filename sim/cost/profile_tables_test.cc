#include "sim/cost/profile_tables.h"

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/public_data.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr char kAttentionHeader[] =
    "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n";
constexpr char kSkewHeader[] =
    "pc,n_label,skew_rate_label,kv_big_label,kp_label,alpha,n_samples\n";

auto Invalid(const std::string& what) {
  return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what));
}

TEST(LayerCurvesTest, SortsPointsOfEachLayer) {
  ASSERT_OK_AND_ASSIGN(
      const LayerCurves curves,
      ParseLayerCurves("layer,tokens,time_us\nb,2,20\na,1,1\nb,1,10\n",
                       "dense.csv", "tokens"));
  ASSERT_EQ(curves.size(), 2u);
  EXPECT_THAT(curves.at("b").x, ElementsAre(1, 2));
  EXPECT_THAT(curves.at("b").y, ElementsAre(10, 20));
}

TEST(LayerCurvesTest, Errors) {
  const auto parse = [](const std::string& rows) {
    return ParseLayerCurves(absl::StrCat("layer,tokens,time_us\n", rows),
                            "d/dense.csv", "tokens");
  };
  EXPECT_THAT(parse("a,1,1\na,1,2\n"),
              Invalid("d/dense.csv:3: measured already in line 2"));
  EXPECT_THAT(parse("a,0,1\n"), Invalid("d/dense.csv:2: tokens is 0"));
  EXPECT_THAT(parse(",1,1\n"), Invalid("d/dense.csv:2: no layer"));
  EXPECT_THAT(parse("a,1,x\n"), Invalid("time_us is \"x\""));
}

TEST(AttentionTest, ThreeTables) {
  ASSERT_OK_AND_ASSIGN(
      const AttentionTables tables,
      ParseAttention(absl::StrCat(kAttentionHeader,
                                  "0,0,1,16,5\n0,0,2,16,7\n16,0,0,0,3\n"
                                  "16,0,1,16,11\n"),
                     "attention.csv"));
  bool outside = false;
  EXPECT_EQ(tables.decode.At({2, 16}, &outside), 7);
  EXPECT_EQ(tables.prefill.At({16, 0}, &outside), 3);
  EXPECT_EQ(tables.mixed.At({16, 0, 1, 16}, &outside), 11);
  EXPECT_FALSE(outside);
}

TEST(AttentionTest, Errors) {
  const auto parse = [](const std::string& rows) {
    return ParseAttention(absl::StrCat(kAttentionHeader, rows), "a.csv");
  };
  EXPECT_THAT(parse("0,0,0,0,5\n"), Invalid("a.csv:2: neither prefill nor"));
  EXPECT_THAT(parse("0,16,1,16,5\n"), Invalid("kv_prefill without"));
  EXPECT_THAT(parse("16,0,0,16,5\n"), Invalid("kv_decode without"));
  EXPECT_THAT(parse("16,0,0,0,5\n16,0,0,0,5\n"),
              Invalid("a.csv:3: measured already in line 2 (16,0)"));
  EXPECT_THAT(parse("16,0,0,0,5\n"), Invalid("no decode-only batch"));
  EXPECT_THAT(parse("0,0,1,16,5\n"), Invalid("no prefill-only batch"));
  std::string diagonal = "0,0,1,16,5\n16,0,0,0,5\n";
  for (int i = 1; i < 100; ++i) {
    absl::StrAppend(&diagonal, i, ",", i, ",", i, ",", i, ",1\n");
  }
  EXPECT_THAT(parse(diagonal), Invalid("common grid"));
}

TEST(SkewTest, LabelsAreUpperBounds) {
  ASSERT_OK_AND_ASSIGN(
      const SkewTable table,
      ParseSkewFit(absl::StrCat(kSkewHeader,
                                "0,n<=2,sr<=15%,kvB<=1k,kp=0,0.1,4\n"
                                "0,n<=2,sr<=15%,kvB<=4k,kp=0,0.2,4\n"
                                "0,n<=8,sr>70%,kvB<=4k,kp=0,0.3,1\n"
                                "16,n<=8,sr<=15%,kvB<=4k,kp<=512,0.8,2\n"),
                   "skew_fit.csv"));
  EXPECT_EQ(table.Alpha({0, 2, 0.15, 1024, 0}), 0.1);
  EXPECT_EQ(table.Alpha({0, 2, 0.01, 1025, 0}), 0.2);
  EXPECT_EQ(table.Alpha({0, 3, 0.9, 4096, 0}), 0.3);
  EXPECT_EQ(table.Alpha({16, 100, 0.0, 99999, 512}), 0.8);
  // A chunk between two measured ones takes the longer one's.
  EXPECT_EQ(table.Alpha({5, 8, 0.1, 2000, 100}), 0.8);
}

TEST(SkewTest, MissingCombinationsTakeTheNearestMean) {
  ASSERT_OK_AND_ASSIGN(
      const SkewTable table,
      ParseSkewFit(absl::StrCat(kSkewHeader,
                                "0,n<=2,sr<=15%,kvB<=1k,kp=0,0.1,1\n"
                                "0,n<=2,sr<=15%,kvB<=4k,kp=0,0.4,2\n"
                                "0,n<=8,sr>70%,kvB<=4k,kp=0,0.7,1\n"
                                "16,n<=4,sr<=15%,kvB<=4k,kp=0,0.8,2\n"),
                   "skew_fit.csv"));
  // Same chunk and sequences: (0.1 + 2 x 0.4) / 3.
  EXPECT_DOUBLE_EQ(table.Alpha({0, 2, 0.9, 1000, 0}), 0.3);
  // Same chunk: (0.1 + 2 x 0.4 + 0.7) / 4.
  EXPECT_DOUBLE_EQ(table.Alpha({0, 4, 0.1, 1000, 0}), 0.4);
}

TEST(SkewTest, Errors) {
  const auto parse = [](const std::string& rows) {
    return ParseSkewFit(absl::StrCat(kSkewHeader, rows), "s.csv");
  };
  EXPECT_THAT(parse("0,m<=2,sr<=5%,kvB<=1k,kp=0,0.1,1\n"),
              Invalid("s.csv:2: label \"m<=2\""));
  EXPECT_THAT(parse("0,n<=2,sr<=5%,kvB<1k,kp=0,0.1,1\n"),
              Invalid("label \"kvB<1k\""));
  EXPECT_THAT(parse("0,n<=2,sr<=x%,kvB<=1k,kp=0,0.1,1\n"),
              Invalid("label \"sr<=x%\""));
  EXPECT_THAT(parse("0,n<=2,sr<=5%,kvB<=1k,kp=0,1e9,1\n"),
              Invalid("alpha is 1e+09"));
}

TEST(LayerUsesTest, Rows) {
  ASSERT_OK_AND_ASSIGN(
      const std::vector<LayerUse> uses,
      ParseLayerUses("layer,per_layer,per_iteration,batches\n"
                     "qkv,1,0,all\niteration,0,1,with_prefill\n"
                     "decodes,0,0.5,decodes_alone\n",
                     "layers.csv"));
  ASSERT_EQ(uses.size(), 3u);
  EXPECT_EQ(uses[0].layer(), "qkv");
  EXPECT_EQ(uses[0].per_layer(), 1);
  EXPECT_EQ(uses[0].batches(), LayerUse::ALL);
  EXPECT_EQ(uses[1].per_iteration(), 1);
  EXPECT_EQ(uses[1].batches(), LayerUse::WITH_PREFILL);
  EXPECT_EQ(uses[2].per_iteration(), 0.5);
  EXPECT_EQ(uses[2].batches(), LayerUse::DECODES_ALONE);
}

TEST(LayerUsesTest, Errors) {
  const auto parse = [](const std::string& row) {
    return ParseLayerUses(
        absl::StrCat("layer,per_layer,per_iteration,batches\n", row), "l.csv");
  };
  EXPECT_THAT(parse("a,1,0,some\n"), Invalid("l.csv:2: batches is \"some\""));
  EXPECT_THAT(parse("a,-1,0,all\n"), Invalid("per_layer"));
}

TEST(HostOverheadTest, OneRow) {
  ASSERT_OK_AND_ASSIGN(
      const HostOverhead host,
      ParseHostOverhead("constant_us,per_sequence_us\n31.5,0.25\n", "h.csv"));
  EXPECT_EQ(host.constant.nanos(), 31'500);
  EXPECT_EQ(host.per_sequence.nanos(), 250);
  EXPECT_THAT(
      ParseHostOverhead("constant_us,per_sequence_us\n1,2\n3,4\n", "h.csv"),
      Invalid("h.csv:3: a second line"));
  EXPECT_THAT(ParseHostOverhead("constant_us,per_sequence_us\n1e10,2\n", "h"),
              Invalid("expected microseconds"));
}

TEST(MetaTest, TopLevelScalars) {
  EXPECT_THAT(ParseMeta("gpu: RTX\r\nengine:\n  gpu: no\n# c: d\nmodel: m: n"),
              ElementsAre(Pair("gpu", "RTX"), Pair("model", "m: n")));
}

TEST(ReadProfileTablesTest, MissingDirectory) {
  EXPECT_THAT(ReadProfileTables("/nonexistent"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("/nonexistent/dense.csv")));
}

TEST(ParseProfileTablesTest, OptionalFilesAreRead) {
  std::map<std::string, std::string> files = {
      {"dense.csv", "layer,tokens,time_us\nall,1,10\n"},
      {"per_sequence.csv", "layer,sequences,time_us\nhead,1,1\n"},
      {"attention.csv",
       absl::StrCat(kAttentionHeader, "0,0,1,16,5\n16,0,0,0,3\n")}};
  ASSERT_OK_AND_ASSIGN(ProfileTables tables, ParseProfileTables(files, "p"));
  EXPECT_TRUE(tables.layers.empty());
  EXPECT_FALSE(tables.host.has_value());
  EXPECT_TRUE(tables.skew.empty());
  files["layers.csv"] = "layer,per_layer,per_iteration,batches\nall,0,1,all\n";
  files["host_overhead.csv"] = "constant_us,per_sequence_us\n20,0\n";
  EXPECT_EQ(tables.throttle.time_constant_us, 0);
  const std::string throttle_header =
      "time_constant_us,compute_slowdown,memory_slowdown,memory_tokens,"
      "compute_tokens,memory_state\n";
  files["throttle.csv"] = throttle_header + "46000,0.126,0.083,128,1024,.25\n";
  files["linear_choices.csv"] = "anything";
  files["meta.yaml"] = "gpu: H\n";
  ASSERT_OK_AND_ASSIGN(tables, ParseProfileTables(files, "p"));
  EXPECT_EQ(tables.throttle.time_constant_us, 46'000);
  EXPECT_EQ(tables.throttle.compute_slowdown, 0.126);
  EXPECT_EQ(tables.throttle.memory_slowdown, 0.083);
  EXPECT_EQ(tables.throttle.memory_tokens, 128);
  EXPECT_EQ(tables.throttle.compute_tokens, 1024);
  EXPECT_EQ(tables.throttle.memory_state, 0.25);
  for (const char* line :
       {"46000,0.1,0.1,128,128,0", "46000,-0.1,0.1,128,1024,0",
        "46000,0.1,0.1,128,1024", "1e10,0.1,0.1,128,1024,0",
        "1e-310,0.1,0.1,128,1024,0", "46000,12,0.1,128,1024,0",
        "46000,0.1,0.1,128,1024,1", "46000,0.1,0.1,128,1024,-0.1",
        "46000,0.1,0.1,128,1024,0\n46000,0.1,0.1,128,1024,0"}) {
    files["throttle.csv"] = absl::StrCat(throttle_header, line, "\n");
    EXPECT_THAT(ParseProfileTables(files, "p"), Invalid("p/throttle.csv:"))
        << line;
  }
  files.erase("throttle.csv");
  EXPECT_EQ(tables.levels.with_prefill.At(512), 1);
  files["levels.csv"] =
      "batches,up_to,factor\nwith_prefill,511,0.97\nwith_prefill,512,0.9\n"
      "decodes_alone,8,1.01\n";
  ASSERT_OK_AND_ASSIGN(const ProfileTables leveled,
                       ParseProfileTables(files, "p"));
  EXPECT_EQ(leveled.levels.with_prefill.At(511), 0.97);
  EXPECT_EQ(leveled.levels.with_prefill.At(4096), 0.9);
  EXPECT_EQ(leveled.levels.decodes_alone.At(3), 1.01);
  for (const char* line : {"with_prefill,0,1", "with_prefill,8,0.01",
                           "with_prefill,8,11", "with_prefill,2e6,1", "all,8,1",
                           "with_prefill,8,1\nwith_prefill,8,1"}) {
    files["levels.csv"] = absl::StrCat("batches,up_to,factor\n", line, "\n");
    EXPECT_THAT(ParseProfileTables(files, "p"), Invalid("p/levels.csv:"))
        << line;
  }
  files.erase("levels.csv");
  EXPECT_EQ(tables.layers.size(), 1u);
  EXPECT_EQ(tables.host->constant.nanos(), 20'000);
  EXPECT_EQ(tables.meta.at("gpu"), "H");
  EXPECT_EQ(tables.linear_choices, "anything");
  files["host_overhead.csv"] = "x\n";
  EXPECT_THAT(ParseProfileTables(files, "p"), Invalid("p/host_overhead.csv:1"));
  files.erase("attention.csv");
  EXPECT_THAT(
      ParseProfileTables(files, "p"),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("p/attention.csv")));
}

TEST(ReadProfileTablesTest, PublishedProfile) {
  const std::string data = PublicDataFolder();
  if (data.empty()) {
    GTEST_SKIP() << "INTERLEAVE_DATA names no folder with public measurements";
  }
  ASSERT_OK_AND_ASSIGN(
      const ProfileTables tables,
      ReadProfileTables(absl::StrCat(data, "/vllm_replay/RTX4090/profile")));
  EXPECT_EQ(tables.dense.size(), 9u);
  EXPECT_EQ(tables.dense.at("qkv_proj").x.size(), 152u);
  EXPECT_EQ(tables.per_sequence.size(), 2u);
  EXPECT_EQ(tables.meta.at("gpu"), "NVIDIA GeForce RTX 4090");
  const AttentionTables& attention = tables.attention;
  EXPECT_THAT(attention.mixed.axis(2),
              ElementsAre(1, 2, 4, 8, 16, 32, 64, 128));
  EXPECT_FALSE(attention.mixed.has_extended());
  EXPECT_FALSE(attention.decode.has_extended());
  EXPECT_FALSE(attention.prefill.has_extended());
  bool outside = false;
  EXPECT_EQ(attention.decode.At({1, 2048}, &outside), 20.1687);
  // Row "0,n<=128,sr<=15%,kvB<=4k,kp=0,0.0286".
  EXPECT_EQ(tables.skew.Alpha({0, 100, 0.1, 3000, 0}), 0.0286);
  EXPECT_FALSE(outside);
}

}  // namespace
}  // namespace interleave::sim
