#include "attention/c_api.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "cuda_runtime_api.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

extern "C" InterleaveAttentionPlan* MakeDecodePlan(int32_t max_batch,
                                                   int32_t head_dim);

namespace interleave::attention {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string LastError() { return interleave_attention_last_error(); }

bool HasDevice() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}

InterleaveAttentionPlanConfig GoodConfig() {
  InterleaveAttentionPlanConfig config = {};
  config.size = sizeof(config);
  config.shape = {INTERLEAVE_ATTENTION_BFLOAT16, 32, 8, 128};
  config.causal = 1;
  config.window_left = -1;
  config.window_right = -1;
  config.max_batch = 4;
  config.max_total_q = 64;
  return config;
}

int32_t Create(const InterleaveAttentionPlanConfig& config) {
  InterleaveAttentionPlan* plan = nullptr;
  const int32_t code =
      interleave_attention_plan_create(&config, nullptr, 0, nullptr, &plan);
  EXPECT_EQ(plan != nullptr, code == INTERLEAVE_ATTENTION_OK);
  interleave_attention_plan_destroy(plan);
  return code;
}

TEST(CApiTest, Version) { EXPECT_EQ(interleave_attention_abi_version(), 1); }

// What the first version's callers were compiled with.
TEST(CApiTest, StructsKeepTheirLayout) {
  EXPECT_EQ(sizeof(InterleaveAttentionPlanConfig), 80u);
  EXPECT_EQ(sizeof(InterleaveAttentionBatch), 104u);
  EXPECT_EQ(sizeof(InterleaveAttentionVarlenParams), 144u);
  EXPECT_EQ(sizeof(InterleaveAttentionPagedParams), 280u);
  EXPECT_EQ(sizeof(InterleaveAttentionScatterParams), 168u);
  EXPECT_EQ(sizeof(InterleaveAttentionGatherParams), 200u);
  EXPECT_EQ(sizeof(InterleaveAttentionMergeParams), 128u);
  EXPECT_EQ(offsetof(InterleaveAttentionPlanConfig, device), 72u);
  EXPECT_EQ(offsetof(InterleaveAttentionBatch, host_cu_seqlens_new), 96u);
  EXPECT_EQ(offsetof(InterleaveAttentionVarlenParams, options), 128u);
  EXPECT_EQ(offsetof(InterleaveAttentionPagedParams, rotary), 192u);
  EXPECT_EQ(offsetof(InterleaveAttentionScatterParams, cache), 88u);
  EXPECT_EQ(offsetof(InterleaveAttentionGatherParams, total_k), 144u);
  EXPECT_EQ(offsetof(InterleaveAttentionMergeParams, lse), 120u);
}

TEST(CApiTest, RefusalsOfAPlanNameTheField) {
  const struct {
    void (*spoil)(InterleaveAttentionPlanConfig&);
    const char* message;
  } cases[] = {
      {[](auto& c) { c.shape.head_dim = 72; }, "shape.head_dim is 72"},
      {[](auto& c) { c.shape.dtype = 7; }, "shape.dtype is 7"},
      {[](auto& c) { c.shape.num_heads = 30; }, "shape.num_heads is 30"},
      {[](auto& c) { c.shape.num_kv_heads = -8; }, "shape.num_kv_heads is -8"},
      {[](auto& c) { c.window_left = -2; }, "mask.window_left is -2"},
      {[](auto& c) { c.window_right = -3; }, "mask.window_right is -3"},
      {[](auto& c) { c.max_batch = -4; }, "max_batch is -4"},
      {[](auto& c) { c.max_total_q = -5; }, "max_total_q is -5"},
      {[](auto& c) { c.max_total_new = -6; }, "max_total_new is -6"},
      {[](auto& c) { c.device = -7; }, "device is -7"},
      {[](auto& c) { c.reserved = 8; }, "config.reserved is 8"},
      {[](auto& c) { c.size = 0; }, "config.size is 0"},
      {[](auto& c) { c.size = 12; }, "config.size is 12"},
      {[](auto& c) { c.size = uint64_t{1} << 40; }, "config.size is 1099"},
  };
  for (const auto& refusal : cases) {
    InterleaveAttentionPlanConfig config = GoodConfig();
    refusal.spoil(config);
    EXPECT_EQ(Create(config), INTERLEAVE_ATTENTION_INVALID_ARGUMENT);
    EXPECT_THAT(LastError(), StartsWith(refusal.message));
    int64_t bytes = 0;
    EXPECT_EQ(interleave_attention_workspace_bytes(&config, &bytes),
              INTERLEAVE_ATTENTION_INVALID_ARGUMENT);
    EXPECT_THAT(LastError(), StartsWith(refusal.message));
  }
}

TEST(CApiTest, NullsAreRefusedByName) {
  const InterleaveAttentionPlanConfig config = GoodConfig();
  int64_t bytes = 0;
  InterleaveAttentionPlan* plan = nullptr;
  EXPECT_EQ(
      interleave_attention_plan_create(&config, nullptr, 0, nullptr, nullptr),
      INTERLEAVE_ATTENTION_INVALID_ARGUMENT);
  EXPECT_EQ(LastError(), "plan is null");
  EXPECT_EQ(
      interleave_attention_plan_create(nullptr, nullptr, 0, nullptr, &plan),
      INTERLEAVE_ATTENTION_INVALID_ARGUMENT);
  EXPECT_EQ(LastError(), "config is null");
  EXPECT_EQ(interleave_attention_workspace_bytes(nullptr, &bytes),
            INTERLEAVE_ATTENTION_INVALID_ARGUMENT);
  EXPECT_EQ(LastError(), "config is null");
  EXPECT_EQ(interleave_attention_workspace_bytes(&config, nullptr),
            INTERLEAVE_ATTENTION_INVALID_ARGUMENT);
  EXPECT_EQ(LastError(), "bytes is null");
  InterleaveAttentionBatch batch = {};
  EXPECT_EQ(interleave_attention_plan_update(nullptr, &batch, nullptr),
            INTERLEAVE_ATTENTION_INVALID_ARGUMENT);
  EXPECT_EQ(LastError(), "plan is null");
  EXPECT_EQ(interleave_attention_varlen_forward(nullptr, nullptr, nullptr),
            INTERLEAVE_ATTENTION_INVALID_ARGUMENT);
  EXPECT_EQ(interleave_attention_decode_forward(nullptr, nullptr, nullptr),
            INTERLEAVE_ATTENTION_INVALID_ARGUMENT);
  EXPECT_EQ(interleave_attention_mixed_forward(nullptr, nullptr, nullptr),
            INTERLEAVE_ATTENTION_INVALID_ARGUMENT);
  EXPECT_EQ(interleave_attention_cache_scatter(nullptr, 0, nullptr),
            INTERLEAVE_ATTENTION_INVALID_ARGUMENT);
  EXPECT_EQ(LastError(), "params is null");
  EXPECT_EQ(interleave_attention_cache_gather(nullptr, 0, nullptr),
            INTERLEAVE_ATTENTION_INVALID_ARGUMENT);
  EXPECT_EQ(interleave_attention_merge_states(nullptr, 0, nullptr),
            INTERLEAVE_ATTENTION_INVALID_ARGUMENT);
  EXPECT_EQ(interleave_attention_plan_destroy(nullptr),
            INTERLEAVE_ATTENTION_OK);
}

// A caller newer than the library: fine while it uses nothing new.
TEST(CApiTest, LongerStructs) {
  std::vector<char> bytes(sizeof(InterleaveAttentionPlanConfig) + 16, 0);
  InterleaveAttentionPlanConfig config = GoodConfig();
  config.size = bytes.size();
  config.max_batch = -1;
  std::memcpy(bytes.data(), &config, sizeof(config));
  const auto* longer =
      reinterpret_cast<const InterleaveAttentionPlanConfig*>(bytes.data());
  int64_t needed = 0;
  EXPECT_EQ(interleave_attention_workspace_bytes(longer, &needed),
            INTERLEAVE_ATTENTION_INVALID_ARGUMENT);
  EXPECT_EQ(LastError(), "max_batch is -1");
  bytes.back() = 1;
  EXPECT_EQ(interleave_attention_workspace_bytes(longer, &needed),
            INTERLEAVE_ATTENTION_UNIMPLEMENTED);
  EXPECT_THAT(LastError(), StartsWith("config.size is 96 with a field set"));
}

TEST(CApiTest, AGoodPlanNeedsADevice) {
  const int32_t code = Create(GoodConfig());
  if (HasDevice()) {
    EXPECT_EQ(code, INTERLEAVE_ATTENTION_OK) << LastError();
  } else {
    EXPECT_EQ(code, INTERLEAVE_ATTENTION_INTERNAL);
    EXPECT_THAT(LastError(), StartsWith("cudaGetDeviceCount: "));
  }
}

TEST(CApiTest, FromC) {
  EXPECT_EQ(MakeDecodePlan(4, 100), nullptr);
  EXPECT_THAT(LastError(), StartsWith("shape.head_dim is 100"));
  InterleaveAttentionPlan* plan = MakeDecodePlan(4, 128);
  EXPECT_EQ(plan != nullptr, HasDevice()) << LastError();
  EXPECT_EQ(interleave_attention_plan_destroy(plan), INTERLEAVE_ATTENTION_OK);
}

TEST(CApiTest, ErrorsBelongToTheirThread) {
  InterleaveAttentionPlanConfig config = GoodConfig();
  config.shape.head_dim = 72;
  Create(config);
  std::thread([] { EXPECT_EQ(LastError(), ""); }).join();
  EXPECT_THAT(LastError(), HasSubstr("72"));
}

InterleaveAttentionCache GoodCache() {
  InterleaveAttentionCache cache = {};
  cache.num_blocks = 4;
  cache.block_size = 16;
  cache.k_block_stride = cache.v_block_stride = 16 * 8 * 128;
  cache.k_slot_stride = cache.v_slot_stride = 8 * 128;
  cache.k_head_stride = cache.v_head_stride = 128;
  return cache;
}

TEST(CApiTest, ScatterRefusals) {
  InterleaveAttentionScatterParams params = {};
  params.size = sizeof(params);
  params.shape = {INTERLEAVE_ATTENTION_FLOAT16, 8, 8, 128};
  params.cache = GoodCache();
  params.total_tokens = -3;
  EXPECT_EQ(interleave_attention_cache_scatter(&params, 0, nullptr),
            INTERLEAVE_ATTENTION_INVALID_ARGUMENT);
  EXPECT_EQ(LastError(), "total_tokens is -3");
  params.total_tokens = 3;
  params.cache.block_size = 33;
  EXPECT_EQ(interleave_attention_cache_scatter(&params, 0, nullptr),
            INTERLEAVE_ATTENTION_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), StartsWith("cache.block_size is 33"));
  params.cache.block_size = (int64_t{1} << 32) + 16;
  EXPECT_EQ(interleave_attention_cache_scatter(&params, 0, nullptr),
            INTERLEAVE_ATTENTION_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), StartsWith("cache.block_size is 4294967312"));
  params.cache.block_size = 16;
  EXPECT_EQ(interleave_attention_cache_scatter(&params, 0, nullptr),
            INTERLEAVE_ATTENTION_INVALID_ARGUMENT);
  EXPECT_EQ(LastError(), "cache.k is null");
}

TEST(CApiTest, GatherRefusals) {
  InterleaveAttentionGatherParams params = {};
  params.size = sizeof(params);
  params.shape = {INTERLEAVE_ATTENTION_BFLOAT16, 8, 8, 128};
  params.cache = GoodCache();
  params.cache.num_blocks = 0;
  params.batch = -2;
  EXPECT_EQ(interleave_attention_cache_gather(&params, 0, nullptr),
            INTERLEAVE_ATTENTION_INVALID_ARGUMENT);
  EXPECT_EQ(LastError(), "batch is -2");
  params.batch = 2;
  params.block_table.max_blocks_per_seq = 5;
  EXPECT_EQ(interleave_attention_cache_gather(&params, 0, nullptr),
            INTERLEAVE_ATTENTION_INVALID_ARGUMENT);
  EXPECT_EQ(LastError(), "block_table.data is null");
  params.block_table.max_blocks_per_seq = 0;
  params.total_k = 7;
  EXPECT_EQ(interleave_attention_cache_gather(&params, 0, nullptr),
            INTERLEAVE_ATTENTION_INVALID_ARGUMENT);
  EXPECT_EQ(LastError(), "k.data is null");
  params.total_k = 0;
  params.batch = 0;
  EXPECT_EQ(interleave_attention_cache_gather(&params, 0, nullptr),
            INTERLEAVE_ATTENTION_OK);
}

TEST(CApiTest, MergeRefusals) {
  InterleaveAttentionMergeParams params = {};
  params.size = sizeof(params);
  params.shape = {INTERLEAVE_ATTENTION_BFLOAT16, 8, 8, 128};
  params.total_q = 2;
  EXPECT_EQ(interleave_attention_merge_states(&params, 0, nullptr),
            INTERLEAVE_ATTENTION_INVALID_ARGUMENT);
  EXPECT_EQ(LastError(), "a.data is null");
  params.total_q = 0;
  EXPECT_EQ(interleave_attention_merge_states(&params, 0, nullptr),
            INTERLEAVE_ATTENTION_OK);
}

}  // namespace
}  // namespace interleave::attention
