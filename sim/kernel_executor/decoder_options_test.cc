#include "sim/kernel_executor/decoder_options.h"

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/cost/model.pb.h"
#include "sim/cost/specs.h"

namespace interleave::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

DecoderOptions Options() {
  DecoderOptions options;
  options.shape = {2, 256, 4, 2, 64, 512, 1024, false};
  return options;
}

TEST(DecoderShapeOfTest, IsTheModels) {
  ASSERT_OK_AND_ASSIGN(const ModelSpec model, LookupModel("llama3.1_8b"));
  ASSERT_OK_AND_ASSIGN(const DecoderShape shape, DecoderShapeOf(model));
  EXPECT_EQ(shape.num_layers, 32);
  EXPECT_EQ(shape.hidden_size, 4096);
  EXPECT_EQ(shape.num_heads, 32);
  EXPECT_EQ(shape.num_kv_heads, 8);
  EXPECT_EQ(shape.head_dim, 128);
  EXPECT_EQ(shape.intermediate_size, 14336);
  EXPECT_EQ(shape.vocab_size, 128256);
  EXPECT_FALSE(shape.tied_embeddings);
}

TEST(DecoderShapeOfTest, RefusesWhatTheKernelsLack) {
  ASSERT_OK_AND_ASSIGN(const ModelSpec experts, LookupModel("mixtral_8x7b"));
  EXPECT_THAT(DecoderShapeOf(experts),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("\"mixtral_8x7b\" has experts")));
  ASSERT_OK_AND_ASSIGN(const ModelSpec norms, LookupModel("qwen3_14b"));
  EXPECT_THAT(DecoderShapeOf(norms),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("norms of queries and keys")));
  ASSERT_OK_AND_ASSIGN(ModelSpec fp8, LookupModel("llama3.1_8b"));
  fp8.set_kv_format(FP8);
  EXPECT_THAT(DecoderShapeOf(fp8), StatusIs(absl::StatusCode::kUnimplemented,
                                            HasSubstr("other than bf16")));
}

TEST(ValidateDecoderOptionsTest, NamesTheOption) {
  EXPECT_THAT(ValidateDecoderOptions(Options()), IsOk());
  DecoderOptions options = Options();
  options.shape.head_dim = 72;
  EXPECT_THAT(ValidateDecoderOptions(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("shape.head_dim is 72")));
  options = Options();
  options.shape.num_kv_heads = 3;
  EXPECT_THAT(ValidateDecoderOptions(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("num_heads is 4, not a multiple")));
  options = Options();
  options.block_size = 24;
  EXPECT_THAT(ValidateDecoderOptions(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("block_size is 24")));
  options = Options();
  options.max_num_batched_tokens = 128;
  EXPECT_THAT(ValidateDecoderOptions(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("less than max_num_seqs 256")));
  options = Options();
  options.num_blocks = int64_t{1} << 28;
  EXPECT_THAT(ValidateDecoderOptions(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("num_blocks is 268435456")));
  options = Options();
  options.tensor_parallel_size = 2;
  EXPECT_THAT(ValidateDecoderOptions(options),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("tensor_parallel_size is 2")));
}

TEST(GraphBatchSizesTest, AreCloseTogetherAndEndAtTheMost) {
  EXPECT_THAT(GraphBatchSizes(1), ElementsAre(1));
  EXPECT_THAT(GraphBatchSizes(3), ElementsAre(1, 2, 3));
  EXPECT_THAT(GraphBatchSizes(64),
              ElementsAre(1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64));
  EXPECT_THAT(GraphBatchSizes(100),
              ElementsAre(1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 100));
}

}  // namespace
}  // namespace interleave::sim
