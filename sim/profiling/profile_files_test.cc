#include "sim/profiling/profile_files.h"

#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/cost/level.h"
#include "sim/cost/profile_tables.h"

namespace interleave::sim {
namespace {

ProfileData Data() {
  ProfileData data;
  data.iteration = {{1, 4000.1234}, {128, 5000}};
  data.decode_iteration = {{1, 3900}, {4, 3920.5}, {8, 3950}, {9, 3960}};
  data.lm_head = {{1, 0}, {64, 12.5}};
  data.prefill.values = {{{16, 0}, 3.25}, {{512, 0}, 40}};
  data.decode.values = {{{1, 16}, 5}, {{8, 16}, 6}};
  data.mixed.values = {{{16, 0, 1, 16}, 7.125}};
  data.skew = {{8, 100, 400, 0.5, 9, 0.1}, {8, 120, 120, 0, 9, -0.3}};
  data.throttle = {46'000, 0.126, 0.083, 128, 1024, 0.25};
  data.levels = {Level({{511, 0.97}, {512, 0.9}}), Level({{64, 1.02}})};
  data.host_constant_us = 31.257;
  data.host_per_sequence_us = 0.125;
  return data;
}

TEST(ProfileFilesTest, Text) {
  const auto files = ProfileFiles(Data(), {1, 4, 8}, {{"gpu", "a card"}});
  // Two to four sequences replay the graph of four; nine have none.
  EXPECT_EQ(files.at("dense.csv"),
            "layer,tokens,time_us\n"
            "decode_iteration,1,3900.000\n"
            "decode_iteration,2,3920.500\n"
            "decode_iteration,4,3920.500\n"
            "decode_iteration,5,3950.000\n"
            "decode_iteration,8,3950.000\n"
            "decode_iteration,9,3960.000\n"
            "iteration,1,4000.123\n"
            "iteration,128,5000.000\n");
  EXPECT_EQ(files.at("attention.csv"),
            "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n"
            "0,0,1,16,5.0000\n"
            "0,0,8,16,6.0000\n"
            "16,0,0,0,3.2500\n"
            "512,0,0,0,40.0000\n"
            "16,0,1,16,7.1250\n");
  EXPECT_EQ(files.at("skew.csv"),
            "n,kv_mean,kv_big,variation,t_us,deviation\n"
            "8,100.0,400,0.5000,9.0000,0.1000\n"
            "8,120.0,120,0.0000,9.0000,-0.3000\n");
  EXPECT_EQ(files.at("host_overhead.csv"),
            "constant_us,per_sequence_us\n31.26,0.1250\n");
  EXPECT_EQ(files.at("throttle.csv"),
            "time_constant_us,compute_slowdown,memory_slowdown,memory_tokens,"
            "compute_tokens,memory_state\n46000,0.1260,0.0830,128,1024,0.25\n");
  EXPECT_EQ(files.at("levels.csv"),
            "batches,up_to,factor\nwith_prefill,511,0.97000\n"
            "with_prefill,512,0.90000\ndecodes_alone,64,1.02000\n");
  EXPECT_EQ(files.at("meta.yaml"), "gpu: a card\n");
}

TEST(ProfileFilesTest, ACardThatIsNeverThrottledHasNoTable) {
  ProfileData data = Data();
  data.throttle = ThrottleTable();
  EXPECT_EQ(ProfileFiles(data, {1, 4, 8}, {}).count("throttle.csv"), 0u);
}

TEST(ProfileFilesTest, CanBeReadBack) {
  ASSERT_OK_AND_ASSIGN(
      const ProfileTables tables,
      ParseProfileTables(ProfileFiles(Data(), {1, 4, 8}, {}), "profile"));
  bool outside = false;
  EXPECT_EQ(tables.dense.at("iteration").At(128, &outside), 5000);
  EXPECT_EQ(tables.per_sequence.at("lm_head").At(64, &outside), 12.5);
  EXPECT_EQ(tables.attention.mixed.At({16, 0, 1, 16}, &outside), 7.125);
  EXPECT_TRUE(tables.skew.empty());
  EXPECT_EQ(tables.layers.size(), 3u);
  EXPECT_EQ(tables.host->constant.nanos(), 31260);
  EXPECT_EQ(tables.throttle.time_constant_us, 46'000);
  EXPECT_EQ(tables.levels.with_prefill.steps(),
            Data().levels.with_prefill.steps());
  EXPECT_EQ(tables.levels.decodes_alone.At(64), 1.02);
}

TEST(CheckCsvTest, Text) {
  const std::vector<CheckRow> rows = {{"-|2x5|all", 200, 203, false},
                                      {"4@0|-|all", 100, 99, true}};
  EXPECT_EQ(CheckCsv(rows),
            "batch,measured_us,predicted_us,error_percent,outside_grid\n"
            "-|2x5|all,200.0,203.0,1.50,0\n"
            "4@0|-|all,100.0,99.0,-1.00,1\n");
}

}  // namespace
}  // namespace interleave::sim
