#include "attention/validate.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "attention/params.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::attention {
namespace {

using ::testing::StartsWith;

alignas(16) char memory[64];

template <typename T>
T* Somewhere() {
  return reinterpret_cast<T*>(memory);
}

PlanConfig GoodConfig() {
  PlanConfig config;
  config.shape = {DataType::kBFloat16, 8, 2, 128};
  config.max_batch = 4;
  config.max_total_q = 32;
  return config;
}

BatchMetadata GoodVarlenBatch() {
  BatchMetadata batch;
  batch.batch = 2;
  batch.total_q = 16;
  batch.cu_seqlens_q = Somewhere<int32_t>();
  batch.cu_seqlens_k = Somewhere<int32_t>();
  batch.max_seqlen_k = 64;
  return batch;
}

BatchMetadata GoodPagedBatch() {
  BatchMetadata batch;
  batch.batch = 2;
  batch.total_q = 16;
  batch.cu_seqlens_q = Somewhere<int32_t>();
  batch.cache_seqlens = Somewhere<int32_t>();
  batch.append = true;
  batch.max_seqlen_k = 64;
  return batch;
}

VarlenParams GoodVarlen() {
  VarlenParams params;
  params.q = {memory, 8 * 128, 128};
  params.k = {memory, 2 * 128, 128};
  params.v = {memory, 2 * 128, 128};
  params.total_k = 64;
  params.out = {memory, 8 * 128, 128};
  params.lse = Somewhere<float>();
  return params;
}

KvCache GoodCache() {
  return {memory, memory, 8, 16, 16 * 256, 256, 128, 16 * 256, 256, 128};
}

PagedParams GoodPaged() {
  PagedParams params;
  params.q = {memory, 8 * 128, 128};
  params.cache = GoodCache();
  params.block_table = {Somewhere<int32_t>(), 4, 4};
  params.append.k = {memory, 2 * 128, 128};
  params.append.v = {memory, 2 * 128, 128};
  params.append.total_tokens = 16;
  params.out = {memory, 8 * 128, 128};
  return params;
}

// One thing wrong with a good argument, and how the message starts.
template <typename T>
struct Fault {
  std::string message;
  std::function<void(T&)> spoil;
};

template <typename T>
void ExpectRefused(const T& good, const std::vector<Fault<T>>& faults,
                   const std::function<absl::Status(const T&)>& validate) {
  ASSERT_THAT(validate(good), IsOk());
  for (const Fault<T>& fault : faults) {
    T spoiled = good;
    fault.spoil(spoiled);
    const absl::Status status = validate(spoiled);
    EXPECT_FALSE(status.ok()) << fault.message;
    EXPECT_THAT(std::string(status.message()), StartsWith(fault.message));
  }
}

TEST(ValidatePlanConfigTest, NamesWhatItRefuses) {
  ExpectRefused<PlanConfig>(
      GoodConfig(),
      {{"shape.dtype is 7",
        [](PlanConfig& c) { c.shape.dtype = static_cast<DataType>(7); }},
       {"shape.head_dim is 72", [](PlanConfig& c) { c.shape.head_dim = 72; }},
       {"shape.head_dim is 136", [](PlanConfig& c) { c.shape.head_dim = 136; }},
       {"shape.num_kv_heads is 0",
        [](PlanConfig& c) { c.shape.num_kv_heads = 0; }},
       {"shape.num_heads is 7", [](PlanConfig& c) { c.shape.num_heads = 7; }},
       {"shape.num_heads is 0", [](PlanConfig& c) { c.shape.num_heads = 0; }},
       {"mask.window_left is -2",
        [](PlanConfig& c) { c.mask.window_left = -2; }},
       {"mask.window_right is -2",
        [](PlanConfig& c) { c.mask.window_right = -2; }},
       {"max_batch is -1", [](PlanConfig& c) { c.max_batch = -1; }},
       {"max_total_q is -1", [](PlanConfig& c) { c.max_total_q = -1; }},
       {"max_total_q is 2147483647",
        [](PlanConfig& c) { c.max_total_q = 2147483647; }},
       {"max_total_new is -5", [](PlanConfig& c) { c.max_total_new = -5; }},
       {"kernels is 9",
        [](PlanConfig& c) { c.kernels = static_cast<KernelChoice>(9); }},
       {"device is -1", [](PlanConfig& c) { c.device = -1; }}},
      [](const PlanConfig& c) { return ValidatePlanConfig(c); });
}

TEST(ValidatePlanConfigTest, AcceptsEveryHeadDim) {
  for (int32_t head_dim : {64, 80, 96, 128, 192, 256}) {
    PlanConfig config = GoodConfig();
    config.shape.head_dim = head_dim;
    EXPECT_THAT(ValidatePlanConfig(config), IsOk());
  }
}

TEST(ValidateBatchTest, NamesWhatItRefuses) {
  static const std::vector<int32_t> kShort = {0, 4};
  static const std::vector<int32_t> kNotZero = {1, 4, 8};
  static const std::vector<int32_t> kDown = {0, 9, 8};
  static const std::vector<int32_t> kFar = {0, 9, 17};
  static const std::vector<int32_t> kBelow = {0, -2};
  static const std::vector<int32_t> kLong = {0, 60};
  static const std::vector<int32_t> kCuQ = {0, 8, 16};
  ExpectRefused<BatchMetadata>(
      GoodPagedBatch(),
      {{"batch is 5", [](BatchMetadata& b) { b.batch = 5; }},
       {"batch is -1", [](BatchMetadata& b) { b.batch = -1; }},
       {"total_q is 33", [](BatchMetadata& b) { b.total_q = 33; }},
       {"total_q is -1", [](BatchMetadata& b) { b.total_q = -1; }},
       {"total_q is 1 but",
        [](BatchMetadata& b) {
          b.cu_seqlens_q = nullptr;
          b.total_q = 1;
        }},
       {"max_seqlen_k is -1", [](BatchMetadata& b) { b.max_seqlen_k = -1; }},
       {"total_new is -1", [](BatchMetadata& b) { b.total_new = -1; }},
       {"total_new is 33", [](BatchMetadata& b) { b.total_new = 33; }},
       {"total_new is 3, less", [](BatchMetadata& b) { b.total_new = 3; }},
       {"cu_seqlens_k and cache_seqlens are both set",
        [](BatchMetadata& b) { b.cu_seqlens_k = Somewhere<int32_t>(); }},
       {"cu_seqlens_k and cache_seqlens are both null",
        [](BatchMetadata& b) { b.cache_seqlens = nullptr; }},
       {"append is set",
        [](BatchMetadata& b) {
          b.cache_seqlens = nullptr;
          b.cu_seqlens_k = Somewhere<int32_t>();
        }},
       {"cu_seqlens_q is not aligned",
        [](BatchMetadata& b) {
          b.cu_seqlens_q = reinterpret_cast<const int32_t*>(memory + 2);
        }},
       {"host_cu_seqlens_q has 2",
        [](BatchMetadata& b) { b.host_cu_seqlens_q = kShort; }},
       {"host_cu_seqlens_q[0] is 1",
        [](BatchMetadata& b) { b.host_cu_seqlens_q = kNotZero; }},
       {"host_cu_seqlens_q[2] = 8 is less",
        [](BatchMetadata& b) { b.host_cu_seqlens_q = kDown; }},
       {"host_cu_seqlens_q[2] = 17 passes",
        [](BatchMetadata& b) { b.host_cu_seqlens_q = kFar; }},
       {"host_cu_seqlens_k[2] = 8 is less",
        [](BatchMetadata& b) { b.host_cu_seqlens_k = kDown; }},
       {"host_cu_seqlens_new[2] = 8 is less",
        [](BatchMetadata& b) { b.host_cu_seqlens_new = kDown; }},
       {"host_cache_seqlens has 3",
        [](BatchMetadata& b) { b.host_cache_seqlens = kCuQ; }},
       {"host_cache_seqlens[1] = -2",
        [](BatchMetadata& b) { b.host_cache_seqlens = kBelow; }},
       {"host_cache_seqlens[1] = 60 and 8 new tokens",
        [](BatchMetadata& b) {
          b.host_cu_seqlens_q = kCuQ;
          b.host_cache_seqlens = kLong;
        }}},
      [](const BatchMetadata& b) {
        return ValidateBatch(GoodConfig(), b, nullptr);
      });
}

TEST(ValidateBatchTest, AcceptsEmptyBatches) {
  EXPECT_THAT(ValidateBatch(GoodConfig(), BatchMetadata(), nullptr), IsOk());
}

TEST(ValidateBatchTest, AcceptsPlateausAndPadding) {
  static const std::vector<int32_t> kPlateau = {0, 8, 8};
  static const std::vector<int32_t> kPadding = {3, -1};
  BatchMetadata batch = GoodPagedBatch();
  batch.host_cu_seqlens_q = kPlateau;
  batch.host_cache_seqlens = kPadding;
  EXPECT_THAT(ValidateBatch(GoodConfig(), batch, nullptr), IsOk());
}

TEST(ValidateVarlenTest, NamesWhatItRefuses) {
  ExpectRefused<VarlenParams>(
      GoodVarlen(),
      {{"q.data is null", [](VarlenParams& p) { p.q.data = nullptr; }},
       {"q.data is not aligned to 16",
        [](VarlenParams& p) { p.q.data = memory + 8; }},
       {"q.token_stride is 100",
        [](VarlenParams& p) { p.q.token_stride = 100; }},
       {"q.head_stride is negative",
        [](VarlenParams& p) { p.q.head_stride = -128; }},
       {"k.data is null", [](VarlenParams& p) { p.k.data = nullptr; }},
       {"v.head_stride is 4", [](VarlenParams& p) { p.v.head_stride = 4; }},
       {"total_k is 63", [](VarlenParams& p) { p.total_k = 63; }},
       {"out.data is null", [](VarlenParams& p) { p.out.data = nullptr; }},
       {"out.head_stride is 64",
        [](VarlenParams& p) { p.out.head_stride = 64; }},
       {"lse is not aligned",
        [](VarlenParams& p) { p.lse = reinterpret_cast<float*>(memory + 2); }},
       {"lse_head_stride is 15",
        [](VarlenParams& p) { p.lse_head_stride = 15; }},
       {"options.softmax_scale is nan",
        [](VarlenParams& p) { p.options.softmax_scale = std::nanf(""); }},
       {"options.softmax_scale is -1",
        [](VarlenParams& p) { p.options.softmax_scale = -1; }},
       {"options.softcap is inf",
        [](VarlenParams& p) {
          p.options.softcap = std::numeric_limits<float>::infinity();
        }},
       {"options.sinks is not aligned",
        [](VarlenParams& p) {
          p.options.sinks = reinterpret_cast<const float*>(memory + 1);
        }}},
      [](const VarlenParams& p) {
        return ValidateVarlen(GoodConfig(), GoodVarlenBatch(), p, nullptr);
      });
  EXPECT_THAT(
      ValidateVarlen(GoodConfig(), GoodPagedBatch(), GoodVarlen(), nullptr),
      StatusIs(absl::StatusCode::kInvalidArgument,
               ::testing::HasSubstr("cu_seqlens_k")));
}

TEST(ValidatePagedTest, NamesWhatItRefuses) {
  ExpectRefused<PagedParams>(
      GoodPaged(),
      {{"q.data is null", [](PagedParams& p) { p.q.data = nullptr; }},
       {"cache.num_blocks is -1",
        [](PagedParams& p) { p.cache.num_blocks = -1; }},
       {"cache.block_size is 24",
        [](PagedParams& p) { p.cache.block_size = 24; }},
       {"cache.block_size is 2048",
        [](PagedParams& p) { p.cache.block_size = 2048; }},
       {"cache.block_size is 0",
        [](PagedParams& p) { p.cache.block_size = 0; }},
       {"cache.k is null", [](PagedParams& p) { p.cache.k = nullptr; }},
       {"cache.v is not aligned",
        [](PagedParams& p) { p.cache.v = memory + 4; }},
       {"cache.k_block_stride is 64",
        [](PagedParams& p) { p.cache.k_block_stride = 64; }},
       {"cache.k_slot_stride is 12",
        [](PagedParams& p) { p.cache.k_slot_stride = 12; }},
       {"cache.k_head_stride is 0",
        [](PagedParams& p) { p.cache.k_head_stride = 0; }},
       {"cache.v_block_stride is 0",
        [](PagedParams& p) { p.cache.v_block_stride = 0; }},
       {"cache.v_slot_stride is 0",
        [](PagedParams& p) { p.cache.v_slot_stride = 0; }},
       {"cache.v_head_stride is 4",
        [](PagedParams& p) { p.cache.v_head_stride = 4; }},
       {"block_table.data is null",
        [](PagedParams& p) { p.block_table.data = nullptr; }},
       {"block_table.row_stride is 3",
        [](PagedParams& p) { p.block_table.row_stride = 3; }},
       {"block_table.max_blocks_per_seq is 3",
        [](PagedParams& p) { p.block_table.max_blocks_per_seq = 3; }},
       {"block_table.max_blocks_per_seq is -1",
        [](PagedParams& p) { p.block_table.max_blocks_per_seq = -1; }},
       {"append.total_tokens is 15",
        [](PagedParams& p) { p.append.total_tokens = 15; }},
       {"append.k.data is null",
        [](PagedParams& p) { p.append.k.data = nullptr; }},
       {"append.v.token_stride is 1",
        [](PagedParams& p) { p.append.v.token_stride = 1; }},
       {"append.rotary.cos is null",
        [](PagedParams& p) { p.append.rotary.sin = memory; }},
       {"append.rotary.rotary_dim is 3",
        [](PagedParams& p) {
          p.append.rotary = {memory, memory, 3, 64, false};
        }},
       {"append.rotary.rotary_dim is 130",
        [](PagedParams& p) {
          p.append.rotary = {memory, memory, 130, 64, false};
        }},
       {"append.rotary.max_position is 63",
        [](PagedParams& p) {
          p.append.rotary = {memory, memory, 64, 63, false};
        }},
       {"append.rotary.cos is set, but the plan",
        [](PagedParams& p) {
          p.append.rotary = {memory, memory, 64, 64, false};
        }},
       {"out.token_stride is 8",
        [](PagedParams& p) { p.out.token_stride = 8; }},
       {"lse_head_stride is 1",
        [](PagedParams& p) {
          p.lse = Somewhere<float>();
          p.lse_head_stride = 1;
        }},
       {"options.softcap is -1",
        [](PagedParams& p) { p.options.softcap = -1; }}},
      [](const PagedParams& p) {
        return ValidatePaged(GoodConfig(), GoodPagedBatch(), p, nullptr);
      });
  EXPECT_THAT(
      ValidatePaged(GoodConfig(), GoodVarlenBatch(), GoodPaged(), nullptr),
      StatusIs(absl::StatusCode::kInvalidArgument,
               ::testing::HasSubstr("cache_seqlens")));
  PlanConfig rotating = GoodConfig();
  rotating.rotate_queries = true;
  BatchMetadata reading = GoodPagedBatch();
  reading.append = false;
  EXPECT_THAT(ValidatePaged(rotating, reading, GoodPaged(), nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::HasSubstr("append")));
}

TEST(ValidatePagedTest, AcceptsEveryBlockSize) {
  for (int32_t size : {1, 2, 4, 8, 16, 32, 48, 64, 128, 256, 480, 512, 1024}) {
    PagedParams params = GoodPaged();
    params.cache.block_size = size;
    params.block_table.max_blocks_per_seq = 64;
    params.block_table.row_stride = 64;
    EXPECT_THAT(ValidatePaged(GoodConfig(), GoodPagedBatch(), params, nullptr),
                IsOk())
        << size;
  }
}

// A view of a fused [pages, 2, heads, slots, head_dim] buffer.
TEST(ValidatePagedTest, AcceptsStridedViews) {
  PagedParams params = GoodPaged();
  params.cache.k_block_stride = 2 * 2 * 16 * 128;
  params.cache.v_block_stride = 2 * 2 * 16 * 128;
  params.cache.k_slot_stride = 128;
  params.cache.v_slot_stride = 128;
  params.cache.k_head_stride = 16 * 128;
  params.cache.v_head_stride = 16 * 128;
  EXPECT_THAT(ValidatePaged(GoodConfig(), GoodPagedBatch(), params, nullptr),
              IsOk());
}

TEST(ValidateScatterTest, NamesWhatItRefuses) {
  ScatterParams good;
  good.shape = GoodConfig().shape;
  good.k = {memory, 256, 128};
  good.v = {memory, 256, 128};
  good.total_tokens = 4;
  good.slot_mapping = Somewhere<int64_t>();
  good.cache = GoodCache();
  ExpectRefused<ScatterParams>(
      good,
      {{"shape.head_dim is 1", [](ScatterParams& p) { p.shape.head_dim = 1; }},
       {"total_tokens is -1", [](ScatterParams& p) { p.total_tokens = -1; }},
       {"slot_mapping is null",
        [](ScatterParams& p) { p.slot_mapping = nullptr; }},
       {"cache.block_size is 3",
        [](ScatterParams& p) { p.cache.block_size = 3; }},
       {"k.data is null", [](ScatterParams& p) { p.k.data = nullptr; }},
       {"v.head_stride is 1", [](ScatterParams& p) { p.v.head_stride = 1; }}},
      [](const ScatterParams& p) { return ValidateScatter(p, 0, nullptr); });
}

TEST(ValidateGatherTest, NamesWhatItRefuses) {
  GatherParams good;
  good.shape = GoodConfig().shape;
  good.cache = GoodCache();
  good.block_table = {Somewhere<int32_t>(), 4, 4};
  good.batch = 2;
  good.cu_seqlens_k = Somewhere<int32_t>();
  good.total_k = 64;
  good.k = {memory, 256, 128};
  good.v = {memory, 256, 128};
  ExpectRefused<GatherParams>(
      good,
      {{"batch is -1", [](GatherParams& p) { p.batch = -1; }},
       {"total_k is -1", [](GatherParams& p) { p.total_k = -1; }},
       {"block_table.data is null",
        [](GatherParams& p) { p.block_table.data = nullptr; }},
       {"cu_seqlens_k is null",
        [](GatherParams& p) { p.cu_seqlens_k = nullptr; }},
       {"k.head_stride is 64", [](GatherParams& p) { p.k.head_stride = 64; }},
       {"v.data is null", [](GatherParams& p) { p.v.data = nullptr; }}},
      [](const GatherParams& p) { return ValidateGather(p, 0, nullptr); });
}

TEST(ValidateMergeTest, NamesWhatItRefuses) {
  MergeParams good;
  good.shape = GoodConfig().shape;
  good.total_q = 4;
  good.a = {memory, 1024, 128};
  good.b = {memory, 1024, 128};
  good.out = {memory, 1024, 128};
  good.lse_a = Somewhere<float>();
  good.lse_b = Somewhere<float>();
  ExpectRefused<MergeParams>(
      good,
      {{"total_q is -1", [](MergeParams& p) { p.total_q = -1; }},
       {"a.data is null", [](MergeParams& p) { p.a.data = nullptr; }},
       {"b.token_stride is 4", [](MergeParams& p) { p.b.token_stride = 4; }},
       {"out.head_stride is 0", [](MergeParams& p) { p.out.head_stride = 0; }},
       {"lse_a is null", [](MergeParams& p) { p.lse_a = nullptr; }},
       {"lse_b is null", [](MergeParams& p) { p.lse_b = nullptr; }}},
      [](const MergeParams& p) { return ValidateMerge(p, 0, nullptr); });
}

absl::Status NoneIsOnTheDevice(const void*, int32_t device,
                               absl::string_view name) {
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is memory of device 1, not of device ", device));
}

TEST(ValidateVarlenTest, NamesPointersOfOtherDevices) {
  EXPECT_THAT(ValidateVarlen(GoodConfig(), GoodVarlenBatch(), GoodVarlen(),
                             NoneIsOnTheDevice),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       StartsWith("q.data is memory of device 1")));
}

}  // namespace
}  // namespace interleave::attention
