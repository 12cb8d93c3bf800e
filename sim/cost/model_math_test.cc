#include "sim/cost/model_math.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/cost/specs.h"

namespace interleave::sim {
namespace {

using ::testing::HasSubstr;

struct PublishedCount {
  const char* model;
  int64_t parameters;
  int64_t kv_bytes_per_token;
};

class PublishedCountTest : public testing::TestWithParam<PublishedCount> {};

// Parameter counts as the checkpoints' own indices and model cards give them;
// KV bytes = 2 x layers x KV heads x 128 x 2 bytes.
INSTANTIATE_TEST_SUITE_P(
    Models, PublishedCountTest,
    testing::Values(PublishedCount{"llama3.1_8b", 8'030'261'248, 131'072},
                    PublishedCount{"llama3.2_3b", 3'212'749'824, 114'688},
                    PublishedCount{"llama3.1_70b", 70'553'706'496, 327'680},
                    PublishedCount{"qwen3_14b", 14'768'307'200, 163'840},
                    PublishedCount{"qwen3_32b", 32'762'123'264, 262'144},
                    PublishedCount{"mistral_7b", 7'248'023'552, 131'072},
                    PublishedCount{"yi_34b", 34'388'917'248, 245'760},
                    PublishedCount{"mixtral_8x7b", 46'702'792'704, 131'072}));

TEST_P(PublishedCountTest, Matches) {
  ASSERT_OK_AND_ASSIGN(const ModelSpec model, LookupModel(GetParam().model));
  EXPECT_EQ(ParameterCount(model), GetParam().parameters);
  EXPECT_EQ(WeightBytes(model), 2 * GetParam().parameters);
  EXPECT_EQ(KvBytesPerToken(model), GetParam().kv_bytes_per_token);
}

TEST(ModelMathTest, TiedEmbeddingsCountOnce) {
  ASSERT_OK_AND_ASSIGN(ModelSpec model, LookupModel("llama3.1_8b"));
  model.set_tied_embeddings(true);
  EXPECT_EQ(ParameterCount(model), 8'030'261'248 - 128'256 * 4'096);
}

TEST(ModelMathTest, Fp8KeepsEmbeddingsAndNormsInSixteenBits) {
  ASSERT_OK_AND_ASSIGN(ModelSpec model, LookupModel("llama3.1_8b"));
  model.set_weight_format(FP8);
  model.set_kv_format(FP8);
  // 32 layers x (4096 x 6144 + 4096 x 4096 + 3 x 4096 x 14336) linear weights.
  const int64_t linear = 32 * int64_t{218'103'808};
  EXPECT_EQ(WeightBytes(model), 2 * 8'030'261'248 - linear);
  EXPECT_EQ(KvBytesPerToken(model), 65'536);
}

TEST(ModelMathTest, TensorParallelDividesWeightsAndReplicatesFewKvHeads) {
  ASSERT_OK_AND_ASSIGN(const ModelSpec model, LookupModel("llama3.1_8b"));
  EXPECT_EQ(KvBytesPerTokenPerDevice(model, 2), 65'536);
  EXPECT_EQ(KvBytesPerTokenPerDevice(model, 8), 16'384);
  EXPECT_EQ(KvBytesPerTokenPerDevice(model, 16), 16'384);
  // Norms (2 x 4,096 a layer and the last) are on every device.
  const int64_t norms = 2 * (32 * 8'192 + 4'096);
  EXPECT_EQ(WeightBytesPerDevice(model, 2),
            (2 * int64_t{8'030'261'248} - norms) / 2 + norms);
  EXPECT_TRUE(CheckTensorParallel(model, 8).ok());
  EXPECT_THAT(CheckTensorParallel(model, 3),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("does not divide")));
  EXPECT_FALSE(CheckTensorParallel(model, 0).ok());
}

TEST(ModelMathTest, KvMemoryByHand) {
  ModelSpec model;
  model.set_name("m");
  model.set_num_layers(1);
  model.set_hidden_size(2);
  model.set_num_heads(1);
  model.set_num_kv_heads(1);
  model.set_head_dim(2);
  model.set_intermediate_size(4);
  model.set_vocab_size(10);
  DeviceSpec device;
  device.set_memory_bytes(10'000);
  KvMemoryOptions options;
  options.gpu_memory_utilization = 0.5;
  options.block_size = 4;
  options.max_num_batched_tokens = 10;
  options.max_num_seqs = 2;
  options.runtime_bytes = 1'000;
  ASSERT_OK_AND_ASSIGN(const KvMemory memory,
                       DeriveKvMemory(model, device, options));
  // Weights: 2x6 + 2x2 + 3x2x4 = 40 linear, 4 norm, 40 embeddings, 2 norm.
  EXPECT_EQ(memory.weight_bytes, 2 * (40 + 4 + 40 + 2));
  // Block: 2 (K and V) x 2 numbers x 2 bytes x 4 tokens.
  EXPECT_EQ(memory.block_bytes, 32);
  // 10 tokens x (8 + 12 + 4 + 4) x 2 bytes + 2 x 10 logits x 8 bytes.
  EXPECT_EQ(memory.activation_bytes, 560 + 160);
  EXPECT_EQ(memory.num_blocks, (5'000 - 172 - 720 - 1'000) / 32);
  EXPECT_THAT(memory.explanation, HasSubstr("= 97 blocks (388 tokens)"));
}

TEST(ModelMathTest, KvMemoryNearARealServer) {
  // vLLM 0.19 on this device and model found room for 2,588 blocks.
  ASSERT_OK_AND_ASSIGN(const ModelSpec model, LookupModel("llama3.1_8b"));
  ASSERT_OK_AND_ASSIGN(const DeviceSpec device, LookupDevice("rtx_4090"));
  ASSERT_OK_AND_ASSIGN(const KvMemory memory,
                       DeriveKvMemory(model, device, KvMemoryOptions()));
  EXPECT_NEAR(static_cast<double>(memory.num_blocks), 2588, 0.05 * 2588);
}

TEST(ModelMathTest, ModelThatDoesNotFit) {
  ASSERT_OK_AND_ASSIGN(const ModelSpec model, LookupModel("llama3.1_70b"));
  ASSERT_OK_AND_ASSIGN(const DeviceSpec device, LookupDevice("h100_sxm"));
  EXPECT_THAT(DeriveKvMemory(model, device, KvMemoryOptions()),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("tensor_parallel")));
  KvMemoryOptions four;
  four.tensor_parallel = 4;
  EXPECT_THAT(DeriveKvMemory(model, device, four), IsOk());
}

TEST(ModelMathTest, BadOptions) {
  ASSERT_OK_AND_ASSIGN(const ModelSpec model, LookupModel("llama3.1_8b"));
  ASSERT_OK_AND_ASSIGN(const DeviceSpec device, LookupDevice("h200"));
  KvMemoryOptions options;
  options.gpu_memory_utilization = 1.5;
  EXPECT_THAT(DeriveKvMemory(model, device, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("gpu_memory_utilization")));
  options = KvMemoryOptions();
  options.block_size = 0;
  EXPECT_THAT(
      DeriveKvMemory(model, device, options),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("block_size")));
}

}  // namespace
}  // namespace interleave::sim
