#include "sim/cost/kernel_table_model.h"

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/public_data.h"
#include "base/sim_time.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/cost/batch_shape.h"
#include "sim/cost/model_math.h"
#include "sim/cost/specs.h"

namespace interleave::sim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Tables by formulas that multilinear interpolation reproduces (ms):
// GEMM m n k / 2^30, prefill 0.5 B L heads / 2^10, decode B L heads / 2^16,
// all-reduce 1 + size / 2^20, twice that where it is launched one by one.
std::string WriteTables(double prefill_scale = 1) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/kernel_tables_",
                                          static_cast<int>(prefill_scale));
  std::filesystem::create_directories(folder);
  std::ofstream gemm(folder + "/sys_1_gemm_perf.csv");
  gemm.precision(17);
  gemm << "gemm_dtype,m,n,k,latency_ms\n";
  for (const double m : {1, 1024}) {
    for (const double n : {32, 4096}) {
      for (const double k : {32, 4096}) {
        gemm << "bfloat16," << m << "," << n << "," << k << ","
             << m * n * k / 1073741824.0 << "\n";
        gemm << "fp8," << m << "," << n << "," << k << ","
             << m * n * k / 2147483648.0 << "\n";
      }
    }
  }
  const char* header =
      "batch_size,isl,num_heads,num_key_value_heads,head_dim,kv_cache_dtype,"
      "step,window_size,latency_ms\n";
  std::ofstream context(folder + "/sys_1_context_attention_perf.csv");
  std::ofstream generation(folder + "/sys_1_generation_attention_perf.csv");
  context.precision(17);
  generation.precision(17);
  context << header;
  generation << header;
  for (const double batch : {1, 64}) {
    for (const double length : {1, 8192}) {
      for (const double heads : {2, 64}) {
        for (const int kv_heads : {1, 2}) {
          const std::string shape =
              absl::StrCat(heads, ",", kv_heads, ",16,bfloat16,");
          context << batch << "," << length << "," << shape << "0,0,"
                  << prefill_scale * batch * length * heads / 2048 << "\n";
          generation << batch << ",1," << shape << length - 1 << ",0,"
                     << batch * length * heads / 65536 << "\n";
        }
      }
    }
  }
  std::ofstream reduce(folder + "/sys_1_custom_allreduce_perf.csv");
  reduce << "num_gpus,message_size,latency_ms,backend\n"
         << "2,0000001,1.00000095367431640625,vllm_graph\n"
         << "2,1048576,2,vllm_graph\n"
         << "2,1,2.0000019073486328125,vllm_eager\n"
         << "2,1048576,4,vllm_eager\n";
  return folder;
}

ModelSpec Model() {
  ModelSpec model;
  model.set_name("tiny");
  model.set_num_layers(3);
  model.set_hidden_size(64);
  model.set_num_heads(4);
  model.set_num_kv_heads(2);
  model.set_head_dim(16);
  model.set_intermediate_size(128);
  model.set_vocab_size(8192);
  return model;
}

KernelTableOptions Options(const std::string& folder) {
  KernelTableOptions options;
  options.set_directory(folder);
  options.set_system("sys");
  options.set_elementwise_latency_us(0);
  return options;
}

std::unique_ptr<CostModel> Create(const KernelTableOptions& options,
                                  int tensor_parallel = 1) {
  auto cost =
      CreateKernelTableModel(Model(), LookupDevice("h100_sxm").value(),
                             {.tensor_parallel = tensor_parallel}, options);
  EXPECT_OK(cost);
  return *std::move(cost);
}

DecodeGroup Decodes(int64_t count, int64_t kv) {
  return {.count = count, .kv_tokens = count * kv, .kv_tokens_max = kv};
}

// Elementwise bytes of a token, in ms: 3 layers x (8 x 64 + 2 (q + kv) + 4 kv +
// 3 mlp) + 6 x 64 numbers of 2 bytes over 0.8 x 3.35 TB/s.
double ElementwiseMs(double q, double kv, double mlp) {
  return (3 * (512 + 2 * (q + kv) + 4 * kv + 3 * mlp) + 384) * 2 /
         (0.8 * 3.35e9);
}

// Picking the largest of 8,192 logits, in ms: 10 bytes each.
constexpr double kArgmaxMs = 8192 * 10 / (0.8 * 3.35e9);

TEST(KernelTableModelTest, DecodeByHand) {
  const auto cost = Create(Options(WriteTables()));
  BatchShape shape;
  shape.decode = Decodes(5, 99);
  // qkv 64 x 128, o 64 x 64, gate_up 64 x 256, down 128 x 64: 36,864 weights;
  // head 64 x 8,192 in two pieces.
  const double gemm = 5 * (3 * 36'864.0 + 64 * 8'192.0) / 1073741824.0;
  const double attention = 3 * 5 * 100 * 4 / 65536.0;
  EXPECT_NEAR(cost->IterationTime(shape).millis(),
              gemm + attention + 5 * (ElementwiseMs(64, 32, 128) + kArgmaxMs),
              1e-6);
  EXPECT_EQ(cost->stats().outside_grid, 0);
}

TEST(KernelTableModelTest, SortingAllLogitsIsPaidBySequence) {
  KernelTableOptions options = Options(WriteTables());
  const auto greedy = Create(options);
  options.set_sampling(KernelTableOptions::SORT);
  const auto sort = Create(options);
  BatchShape shape;
  shape.decode = Decodes(5, 99);
  // 0.14 ns and 36 bytes more for each logit.
  const double more = 8192 * (0.14e-6 + 36 / (0.8 * 3.35e9));
  EXPECT_NEAR(
      (sort->IterationTime(shape) - greedy->IterationTime(shape)).millis(),
      5 * more, 1e-6);
}

TEST(KernelTableModelTest, QueryKeyNormIsAKernelMore) {
  KernelTableOptions options = Options(WriteTables());
  options.set_elementwise_latency_us(3);
  ModelSpec model = Model();
  model.set_query_key_norm(true);
  const DeviceSpec device = LookupDevice("h100_sxm").value();
  ASSERT_OK_AND_ASSIGN(const auto with,
                       CreateKernelTableModel(model, device, {}, options));
  const auto without = Create(options);
  BatchShape shape;
  shape.decode = Decodes(2, 99);
  // Reads and writes of 64 + 32 numbers in each of 3 layers.
  const double bytes = 2 * 3 * 2 * (64 + 32) * 2;
  EXPECT_NEAR(
      (with->IterationTime(shape) - without->IterationTime(shape)).millis(),
      3 * 0.003 + bytes / (0.8 * 3.35e9), 2e-6);
}

TEST(KernelTableModelTest, PrefillByHand) {
  const auto cost = Create(Options(WriteTables()));
  const auto attention_ms = [&](const std::vector<PrefillChunk>& chunks) {
    BatchShape shape;
    shape.prefill = chunks;
    for (const PrefillChunk& chunk : chunks) {
      shape.prefill_tokens += chunk.query_tokens;
    }
    const double gemm =
        (static_cast<double>(shape.num_tokens()) * 3 * 36'864 +
         static_cast<double>(shape.num_sequences()) * 64 * 8'192) /
        1073741824.0;
    return (cost->IterationTime(shape).millis() - gemm -
            static_cast<double>(shape.num_tokens()) *
                ElementwiseMs(64, 32, 128) -
            static_cast<double>(shape.num_sequences()) * kArgmaxMs) /
           3;
  };
  // Whole prompts: B L heads / 2,048.
  EXPECT_NEAR(attention_ms({{512, 0}}), 1, 1e-6);
  EXPECT_NEAR(attention_ms({{256, 0}, {256, 0}}), 1, 1e-6);
  // The second half of a prompt of 512 is three quarters of its work.
  EXPECT_NEAR(attention_ms({{256, 256}}), 0.75, 1e-6);
  // Prompts of 300 and 400: two of sqrt((300^2 + 400^2) / 2).
  EXPECT_NEAR(attention_ms({{300, 0}, {400, 0}}),
              2 * std::sqrt(125'000.0) * 4 / 2048, 1e-6);
}

TEST(KernelTableModelTest, OneTokenChunkIsADecode) {
  const auto cost = Create(Options(WriteTables()));
  const std::vector<PrefillChunk> chunks = {{1, 99}};
  BatchShape mixed;
  mixed.prefill = chunks;
  mixed.prefill_tokens = 1;
  mixed.decode = Decodes(4, 99);
  BatchShape decodes;
  decodes.decode = Decodes(5, 99);
  EXPECT_EQ(cost->IterationTime(mixed), cost->IterationTime(decodes));
}

TEST(KernelTableModelTest, TensorParallelAndFp8) {
  KernelTableOptions options = Options(WriteTables());
  options.set_gemm_format("fp8");
  options.set_elementwise_latency_us(3);
  const auto cost = Create(options, 2);
  BatchShape shape;
  shape.decode = Decodes(1, 99);
  // Half of each matrix in FP8, the head's half in 16 bits.
  const double gemm = 3 * 18'432.0 / 2147483648.0 + 64 * 4'096.0 / 1073741824.0;
  const double attention = 3 * 100 * 2 / 65536.0;
  const double reduce = 3 * 2 * (1 + 64 / 1048576.0);
  const double latency = (5 * 3 + 2) * 0.003;
  EXPECT_NEAR(cost->IterationTime(shape).millis(),
              gemm + attention + reduce + latency + ElementwiseMs(32, 16, 64) +
                  kArgmaxMs,
              1e-6);
}

TEST(KernelTableModelTest, LargeBatchesLaunchTheirKernelsOneByOne) {
  KernelTableOptions options = Options(WriteTables());
  options.set_captured_tokens(8);
  const auto small = Create(options, 2);
  options.set_captured_tokens(7);
  const auto large = Create(options, 2);
  BatchShape shape;
  shape.decode = Decodes(8, 99);
  // Two all-reduces of 8 x 64 numbers in each of 3 layers.
  EXPECT_NEAR(
      (large->IterationTime(shape) - small->IterationTime(shape)).millis(),
      3 * 2 * (1 + 8 * 64 / 1048576.0), 1e-6);
}

TEST(KernelTableModelTest, OutsideIsCounted) {
  const auto cost = Create(Options(WriteTables()));
  BatchShape shape;
  shape.decode = Decodes(1, 10'000);
  cost->IterationTime(shape);
  EXPECT_EQ(cost->stats().outside_grid, 1);
  shape.decode = Decodes(65, 10);
  cost->IterationTime(shape);
  EXPECT_EQ(cost->stats().outside_grid, 2);
  shape.decode = Decodes(64, 10);
  cost->IterationTime(shape);
  EXPECT_EQ(cost->stats().outside_grid, 2);
  EXPECT_EQ(cost->stats().queries, 3);
}

TEST(KernelTableModelTest, DecodeTimesEqualsIterationByIteration) {
  const auto cost = Create(Options(WriteTables()));
  const auto fast = Create(Options(WriteTables()));
  for (const DecodeGroup& first : {Decodes(1, 3), Decodes(17, 500),
                                   Decodes(64, 8'150), Decodes(100, 10)}) {
    BatchShape shape;
    shape.decode = first;
    std::vector<SimDuration> times(60);
    fast->DecodeTimes(first, absl::MakeSpan(times));
    for (const SimDuration time : times) {
      ASSERT_EQ(time, cost->IterationTime(shape));
      shape.decode.Advance();
    }
  }
  EXPECT_EQ(fast->stats().outside_grid, cost->stats().outside_grid);
  EXPECT_GT(fast->stats().outside_grid, 0);
}

TEST(KernelTableModelTest, Errors) {
  const DeviceSpec device = LookupDevice("h100_sxm").value();
  const KernelTableOptions options = Options(WriteTables());
  ModelSpec experts = Model();
  experts.set_num_experts(4);
  EXPECT_THAT(CreateKernelTableModel(experts, device, {}, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("dense models only")));
  EXPECT_THAT(CreateKernelTableModel(Model(), device, {}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("directory is empty")));
  KernelTableOptions other = options;
  other.set_gemm_format("int4");
  EXPECT_THAT(CreateKernelTableModel(Model(), device, {}, other),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("there are: bfloat16, fp8")));
  other = options;
  other.set_all_reduce_backend("smoke");
  EXPECT_THAT(
      CreateKernelTableModel(Model(), device, {.tensor_parallel = 2}, other),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2 x smoke")));
  other = options;
  other.set_launched_all_reduce_backend("mist");
  EXPECT_THAT(
      CreateKernelTableModel(Model(), device, {.tensor_parallel = 2}, other),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2 x mist")));
}

TEST(KernelTableModelTest, TableFasterThanTheDeviceIsRefused) {
  EXPECT_THAT(
      CreateKernelTableModel(Model(), LookupDevice("h100_sxm").value(), {},
                             Options(WriteTables(/*prefill_scale=*/0))),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("the table is broken"),
                     HasSubstr("context_attention_system"))));
}

// Every dense model that ships, in 16 bits and in FP8, on 1 to 8 devices.
TEST(KernelTableModelTest, PublishedTablesComposeEveryDenseModel) {
  const std::string data = PublicDataFolder();
  if (data.empty()) {
    GTEST_SKIP() << "INTERLEAVE_DATA names no folder with public measurements";
  }
  KernelTableOptions options;
  options.set_directory(absl::StrCat(data, "/kernel_tables"));
  options.set_system("h100_sxm");
  const DeviceSpec h100 = LookupDevice("h100_sxm").value();
  int composed = 0;
  for (const NamedSpec& listed : ListModels()) {
    ModelSpec model = LookupModel(listed.name).value();
    if (model.num_experts() > 0) continue;
    for (const NumberFormat format : {BF16, FP8}) {
      model.set_weight_format(format);
      model.set_kv_format(format);
      for (const int degree : {1, 2, 4, 8}) {
        SCOPED_TRACE(absl::StrCat(listed.name, " ", NumberFormat_Name(format),
                                  " on ", degree));
        ASSERT_OK_AND_ASSIGN(
            const auto cost,
            CreateKernelTableModel(model, h100, {.tensor_parallel = degree},
                                   options));
        // Decodes read the weights once, prompts compute with all of them.
        BatchShape decode;
        decode.decode = Decodes(16, 1'000);
        const double bytes =
            static_cast<double>(WeightBytesPerDevice(model, degree));
        EXPECT_GT(cost->IterationTime(decode).seconds(), 0.8 * bytes / 3.35e12);
        EXPECT_LT(cost->IterationTime(decode).seconds(),
                  3 * bytes / 3.35e12 + 0.008);
        const std::vector<PrefillChunk> chunks = {{2'048, 0}, {2'048, 2'048}};
        BatchShape prefill;
        prefill.prefill = chunks;
        prefill.prefill_tokens = 4'096;
        const double flops =
            2.0 * 4'096 *
            static_cast<double>(ParameterCount(model) -
                                2 * int64_t{model.vocab_size()} *
                                    model.hidden_size()) /
            degree;
        const double peak =
            format == FP8 ? h100.fp8_flops_per_s() : h100.bf16_flops_per_s();
        EXPECT_GT(cost->IterationTime(prefill).seconds(), flops / peak);
        EXPECT_LT(cost->IterationTime(prefill).seconds(),
                  4 * flops / peak + 0.06);
        EXPECT_EQ(cost->stats().outside_grid, 0);
        ++composed;
      }
    }
  }
  EXPECT_GE(composed, 6 * 2 * 4);
}

TEST(KernelTableModelTest, PublishedTables) {
  const std::string data = PublicDataFolder();
  if (data.empty()) {
    GTEST_SKIP() << "INTERLEAVE_DATA names no folder with public measurements";
  }
  KernelTableOptions options;
  options.set_directory(absl::StrCat(data, "/kernel_tables"));
  options.set_system("h100_sxm");
  ModelSpec model = LookupModel("llama3.1_70b").value();
  model.set_weight_format(FP8);
  model.set_kv_format(FP8);
  const DeviceSpec h100 = LookupDevice("h100_sxm").value();
  double last = 1e9;
  for (const int degree : {1, 2, 4, 8}) {
    ASSERT_OK_AND_ASSIGN(
        const auto cost,
        CreateKernelTableModel(model, h100, {.tensor_parallel = degree},
                               options));
    BatchShape shape;
    shape.decode = Decodes(32, 1'500);
    const double ms = cost->IterationTime(shape).millis();
    // Above the time to read this device's weights, below twice that and 8 ms.
    const double floor = 70e9 / degree / 3.35e9;
    EXPECT_GT(ms, floor) << degree;
    EXPECT_LT(ms, 2 * floor + 8) << degree;
    EXPECT_LT(ms, last) << degree;
    EXPECT_EQ(cost->stats().outside_grid, 0) << degree;
    last = ms;
  }
  // The H200's prefill attention is refused; the H100's stands in.
  options.set_system("h200_sxm");
  const DeviceSpec h200 = LookupDevice("h200").value();
  EXPECT_THAT(CreateKernelTableModel(model, h200, {}, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("h200_sxm_attention")));
  options.set_context_attention_system("h100_sxm");
  EXPECT_OK(CreateKernelTableModel(model, h200, {}, options));
}

}  // namespace
}  // namespace interleave::sim
