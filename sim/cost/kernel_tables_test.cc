#include "sim/cost/kernel_tables.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

auto Invalid(const std::string& what) {
  return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what));
}

TEST(GemmTest, OneFormatAveraged) {
  ASSERT_OK_AND_ASSIGN(const Grid grid,
                       ParseGemm("version,gemm_dtype,m,n,k,latency_ms\n"
                                 "1,bfloat16,1,64,32,2\n1,fp8,1,64,32,1\n"
                                 "2,bfloat16,1,64,32,4\n1,bfloat16,2,64,32,7\n",
                                 "gemm.csv", "bfloat16"));
  bool outside = false;
  EXPECT_EQ(grid.At({64, 32, 1}, &outside), 3);
  EXPECT_EQ(grid.At({64, 32, 2}, &outside), 7);
  EXPECT_FALSE(outside);
}

TEST(GemmTest, Errors) {
  const auto parse = [](const std::string& rows) {
    return ParseGemm(absl::StrCat("gemm_dtype,m,n,k,latency_ms\n", rows),
                     "g.csv", "fp8");
  };
  EXPECT_THAT(parse("bf,1,2,3,4\n"),
              Invalid("no rows for gemm_dtype \"fp8\"; there are: bf"));
  EXPECT_THAT(parse("fp8,0,2,3,4\n"), Invalid("g.csv:2: a size is 0"));
  EXPECT_THAT(parse("fp8,1,2,3,-4\n"), Invalid("g.csv:2: latency_ms is -4"));
}

TEST(AttentionKernelsTest, PicksShapeWithoutWindow) {
  const std::string text =
      "batch_size,isl,num_heads,num_key_value_heads,head_dim,kv_cache_dtype,"
      "step,window_size,latency_ms\n"
      "2,1,32,8,128,bfloat16,15,0,5\n"
      "2,1,32,8,128,bfloat16,15,128,1\n"
      "2,1,32,8,128,fp8,15,0,1\n"
      "2,1,32,4,128,bfloat16,15,0,1\n";
  ASSERT_OK_AND_ASSIGN(
      const Grid grid,
      ParseAttentionKernels(text, "a.csv", {8, 128, "bfloat16"}));
  bool outside = false;
  EXPECT_EQ(grid.At({32, 2, 16}, &outside), 5);
  EXPECT_FALSE(outside);
  EXPECT_THAT(ParseAttentionKernels(text, "a.csv", {8, 64, "bfloat16"}),
              Invalid("8 x 64 bfloat16; there are: 4 x 128 bfloat16"));
}

TEST(AllReduceTest, PicksDevicesAndBackend) {
  const std::string text =
      "num_gpus,message_size,latency_ms,backend\n"
      "2,128,1,graph\n2,256,2,graph\n2,128,9,eager\n4,128,9,graph\n";
  ASSERT_OK_AND_ASSIGN(const Curve curve,
                       ParseAllReduce(text, "r.csv", "graph", 2));
  EXPECT_THAT(curve.x, ElementsAre(128, 256));
  EXPECT_THAT(curve.y, ElementsAre(1, 2));
  EXPECT_THAT(ParseAllReduce(text, "r.csv", "graph", 8),
              Invalid("8 x graph; there are: 2 x eager, 2 x graph, 4 x graph"));
}

TEST(FindKernelTableTest, BySystemAndKind) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/tables");
  std::filesystem::create_directories(folder);
  for (const char* name :
       {"h1_gemm_v1_gemm_perf.csv.gz", "h1_gemm_v2_gemm_perf.csv",
        "h10_gemm_v3_gemm_perf.csv.gz"}) {
    std::ofstream(absl::StrCat(folder, "/", name)) << "x";
  }
  EXPECT_THAT(FindKernelTable(folder, "h1", "gemm"),
              IsOkAndHolds(EndsWith("h1_gemm_v2_gemm_perf.csv")));
  EXPECT_THAT(FindKernelTable(folder, "h1", "nccl"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr(folder), HasSubstr("h1_*_nccl_perf"))));
  EXPECT_THAT(FindKernelTable("/nonexistent", "h1", "gemm"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("/nonexistent: cannot be read")));
}

}  // namespace
}  // namespace interleave::sim
