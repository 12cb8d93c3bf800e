#include "attention/reference.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/params.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::attention {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr DataType kBf16 = DataType::kBFloat16;

TEST(ToDoubleTest, KnownBits) {
  EXPECT_EQ(ToDouble(kBf16, 0x3f80), 1.0);
  EXPECT_EQ(ToDouble(kBf16, 0xc040), -3.0);
  EXPECT_EQ(ToDouble(kBf16, 0x7f80), kInfinity);
  EXPECT_TRUE(std::isnan(ToDouble(kBf16, 0x7fc0)));
  EXPECT_EQ(ToDouble(DataType::kFloat16, 0x3c00), 1.0);
  EXPECT_EQ(ToDouble(DataType::kFloat16, 0x7bff), 65504.0);
  EXPECT_EQ(ToDouble(DataType::kFloat16, 0x0001), std::ldexp(1.0, -24));
}

TEST(FromDoubleTest, RoundsToNearestEven) {
  // bf16 steps by 1/128 in [1, 2).
  EXPECT_EQ(FromDouble(kBf16, 1.0 + 1.0 / 256), 0x3f80);
  EXPECT_EQ(FromDouble(kBf16, 1.0 + 3.0 / 256), 0x3f82);
  EXPECT_EQ(FromDouble(DataType::kFloat16, 65520.0), 0x7c00);
  EXPECT_EQ(FromDouble(DataType::kFloat16, std::ldexp(1.0, -25)), 0);
}

TEST(FromDoubleTest, RoundTripsEveryFiniteValue) {
  for (const DataType type : {kBf16, DataType::kFloat16}) {
    for (int bits = 0; bits < 0x10000; ++bits) {
      const double value = ToDouble(type, bits);
      if (std::isnan(value)) continue;
      ASSERT_EQ(FromDouble(type, value), bits);
    }
  }
}

// A dense [tokens, heads, 64] tensor on the host.
struct HostTensor {
  HostTensor(int64_t tokens, int64_t heads)
      : heads(heads), data(tokens * heads * 64) {}
  void Fill(int64_t token, int64_t head, double value) {
    for (int d = 0; d < 64; ++d) At(token, head)[d] = FromDouble(kBf16, value);
  }
  uint16_t* At(int64_t token, int64_t head) {
    return &data[(token * heads + head) * 64];
  }
  InputTensor Input() const { return {data.data(), heads * 64, 64}; }
  OutputTensor Output() { return {data.data(), heads * 64, 64}; }

  int64_t heads;
  std::vector<uint16_t> data;
};

PlanConfig SmallConfig(int32_t heads, int32_t kv_heads, bool causal) {
  PlanConfig config;
  config.shape = {kBf16, heads, kv_heads, 64};
  config.mask.causal = causal;
  config.max_batch = 8;
  config.max_total_q = 64;
  return config;
}

// Keys and values of one repeated number each: a query of ones meets logit
// 64 * key / 8 = 8 * key.
class OneHeadVarlen {
 public:
  OneHeadVarlen(int queries, std::vector<double> keys,
                std::vector<double> values)
      : q_(queries, 1),
        k_(keys.size(), 1),
        v_(keys.size(), 1),
        out_(queries, 1),
        cu_q_({0, queries}),
        cu_k_({0, static_cast<int32_t>(keys.size())}) {
    for (int i = 0; i < queries; ++i) q_.Fill(i, 0, 1.0);
    for (size_t j = 0; j < keys.size(); ++j) {
      k_.Fill(j, 0, keys[j]);
      v_.Fill(j, 0, values[j]);
    }
  }

  absl::StatusOr<ReferenceOutput> Run(const PlanConfig& config,
                                      const AttentionOptions& options = {}) {
    BatchMetadata batch;
    batch.batch = 1;
    batch.total_q = cu_q_[1];
    batch.cu_seqlens_q = cu_q_.data();
    batch.cu_seqlens_k = cu_k_.data();
    batch.max_seqlen_k = cu_k_[1];
    VarlenParams params;
    params.q = q_.Input();
    params.k = k_.Input();
    params.v = v_.Input();
    params.total_k = cu_k_[1];
    params.out = out_.Output();
    params.options = options;
    return ReferenceVarlenForward(config, batch, params);
  }

 private:
  HostTensor q_, k_, v_, out_;
  std::vector<int32_t> cu_q_, cu_k_;
};

TEST(ReferenceVarlenTest, WeighsByHand) {
  // Logits 0 and 1 (8 * 0.125): weights 1 / (1 + e), e / (1 + e).
  OneHeadVarlen run(1, {0.0, 0.125}, {1.0, 3.0});
  ASSERT_OK_AND_ASSIGN(const ReferenceOutput output,
                       run.Run(SmallConfig(1, 1, true)));
  const double e = std::exp(1.0);
  EXPECT_THAT(output.out[0], DoubleNear((1 + 3 * e) / (1 + e), 1e-12));
  EXPECT_THAT(output.out[63], DoubleNear((1 + 3 * e) / (1 + e), 1e-12));
  EXPECT_THAT(output.lse[0], DoubleNear(std::log(1 + e), 1e-12));
}

TEST(ReferenceVarlenTest, SinkJoinsTheDenominatorOnce) {
  OneHeadVarlen run(1, {0.0, 0.125}, {1.0, 3.0});
  const float sink = 2.0f;
  AttentionOptions options;
  options.sinks = &sink;
  ASSERT_OK_AND_ASSIGN(const ReferenceOutput output,
                       run.Run(SmallConfig(1, 1, true), options));
  const double e = std::exp(1.0);
  EXPECT_THAT(output.out[0], DoubleNear((1 + 3 * e) / (1 + e + e * e), 1e-12));
  EXPECT_THAT(output.lse[0], DoubleNear(std::log(1 + e + e * e), 1e-12));
}

TEST(ReferenceVarlenTest, SoftcapBoundsTheLogits) {
  OneHeadVarlen run(1, {0.0, 16.0}, {0.0, 1.0});
  AttentionOptions options;
  options.softcap = 1.0f;
  ASSERT_OK_AND_ASSIGN(const ReferenceOutput output,
                       run.Run(SmallConfig(1, 1, true), options));
  // tanh(128) is 1: weights 1 and e.
  EXPECT_THAT(output.out[0],
              DoubleNear(std::exp(1.0) / (1 + std::exp(1.0)), 1e-12));
}

TEST(ReferenceVarlenTest, WindowIsInclusiveOnBothSides) {
  // All logits equal: the output is the mean of the values seen.
  OneHeadVarlen run(4, {0, 0, 0, 0, 0}, {1, 2, 4, 8, 16});
  PlanConfig config = SmallConfig(1, 1, false);
  config.mask.window_left = 1;
  config.mask.window_right = 1;
  ASSERT_OK_AND_ASSIGN(const ReferenceOutput output, run.Run(config));
  // Query i sits at position i + 1.
  EXPECT_THAT(output.out[0 * 64], DoubleNear((1 + 2 + 4) / 3.0, 1e-12));
  EXPECT_THAT(output.out[2 * 64], DoubleNear((4 + 8 + 16) / 3.0, 1e-12));
  EXPECT_THAT(output.out[3 * 64], DoubleNear((8 + 16) / 2.0, 1e-12));
}

// The founding document's first example: lengths [10, 3, 1] over [0, 1, 7].
TEST(ReferenceVarlenTest, GoldenExample1) {
  constexpr int kHeads = 2;
  HostTensor q(14, kHeads);
  HostTensor k(8, 1);
  HostTensor v(8, 1);
  HostTensor out(14, kHeads);
  for (int t = 0; t < 14; ++t) {
    for (int h = 0; h < kHeads; ++h) q.Fill(t, h, 0.0);
  }
  for (int t = 0; t < 8; ++t) {
    k.Fill(t, 0, 1.0);
    v.Fill(t, 0, t + 1);
  }
  const std::vector<int32_t> cu_q = {0, 10, 13, 14};
  const std::vector<int32_t> cu_k = {0, 0, 1, 8};
  BatchMetadata batch;
  batch.batch = 3;
  batch.total_q = 14;
  batch.cu_seqlens_q = cu_q.data();
  batch.cu_seqlens_k = cu_k.data();
  batch.max_seqlen_k = 8;
  batch.host_cu_seqlens_q = cu_q;
  batch.host_cu_seqlens_k = cu_k;
  VarlenParams params;
  params.q = q.Input();
  params.k = k.Input();
  params.v = v.Input();
  params.total_k = 8;
  params.out = out.Output();
  ASSERT_OK_AND_ASSIGN(
      const ReferenceOutput output,
      ReferenceVarlenForward(SmallConfig(kHeads, 1, true), batch, params));
  for (int h = 0; h < kHeads; ++h) {
    // r0 owns no key; r1's first two rows see none (aligned bottom right).
    for (int t = 0; t < 12; ++t) {
      EXPECT_TRUE(output.owned[t]);
      EXPECT_EQ(output.out[(t * kHeads + h) * 64], 0.0) << t;
      EXPECT_EQ(output.lse[h * 14 + t], -kInfinity) << t;
    }
    EXPECT_EQ(output.out[(12 * kHeads + h) * 64], 1.0);
    EXPECT_EQ(output.lse[h * 14 + 12], 0.0);
    // r2 sees keys 1..7, values 2..8: mean 5.
    EXPECT_THAT(output.out[(13 * kHeads + h) * 64], DoubleNear(5.0, 1e-12));
    EXPECT_THAT(output.lse[h * 14 + 13], DoubleNear(std::log(7.0), 1e-12));
  }
}

// The second: cache lengths [30, 32, 70] in blocks of 32.
TEST(ReferencePagedTest, GoldenExample2) {
  constexpr uint16_t kNan = 0x7fc0;
  const std::vector<int32_t> table = {2, -1, -1, -1, 0, 1, -1, -1, 3, 5, 6, -1};
  const std::vector<int32_t> lengths = {30, 32, 70};
  HostTensor cache_k(7 * 32, 1);
  HostTensor cache_v(7 * 32, 1);
  for (uint16_t& x : cache_k.data) x = kNan;
  for (uint16_t& x : cache_v.data) x = kNan;
  for (int b = 0; b < 3; ++b) {
    for (int j = 0; j < lengths[b]; ++j) {
      const int slot = table[4 * b + j / 32] * 32 + j % 32;
      cache_k.Fill(slot, 0, 0.0);
      cache_v.Fill(slot, 0, 1.0);
    }
  }
  HostTensor q(3, 1), k(3, 1), v(3, 1), out(3, 1);
  for (int b = 0; b < 3; ++b) {
    q.Fill(b, 0, 0.0);
    k.Fill(b, 0, 2.0 + b);
    v.Fill(b, 0, 64.0);
  }
  BatchMetadata batch;
  batch.batch = 3;
  batch.total_q = 3;
  batch.cache_seqlens = lengths.data();
  batch.append = true;
  batch.max_seqlen_k = 128;
  batch.host_cache_seqlens = lengths;
  PagedParams params;
  params.q = q.Input();
  params.cache = {cache_k.data.data(),
                  cache_v.data.data(),
                  7,
                  32,
                  32 * 64,
                  64,
                  64,
                  32 * 64,
                  64,
                  64};
  params.block_table = {table.data(), 4, 4};
  params.append.k = k.Input();
  params.append.v = v.Input();
  params.append.total_tokens = 3;
  params.out = out.Output();
  ASSERT_OK_AND_ASSIGN(
      const ReferenceOutput output,
      ReferencePagedForward(SmallConfig(1, 1, true), batch, params));
  // Slot 30 of block 2, slot 0 of block 1, slot 6 of block 6; nothing else.
  const std::vector<int> slots = {2 * 32 + 30, 1 * 32 + 0, 6 * 32 + 6};
  for (int b = 0; b < 3; ++b) {
    EXPECT_EQ(ToDouble(kBf16, *cache_k.At(slots[b], 0)), 2.0 + b);
    EXPECT_EQ(ToDouble(kBf16, *cache_v.At(slots[b], 0)), 64.0);
    const int n = lengths[b] + 1;
    EXPECT_THAT(output.out[b * 64], DoubleNear((n - 1 + 64.0) / n, 1e-12));
    EXPECT_THAT(output.lse[b], DoubleNear(std::log(n), 1e-12));
  }
  int untouched = 0;
  for (int slot = 0; slot < 7 * 32; ++slot) {
    untouched += *cache_k.At(slot, 0) == kNan;
  }
  EXPECT_EQ(untouched, 7 * 32 - (30 + 32 + 70) - 3);
}

TEST(ReferencePagedTest, PaddingRowsReadAndAppendNothing) {
  const int32_t length = -1;
  const std::vector<int32_t> table = {-1, -1};
  HostTensor cache_k(32, 1), cache_v(32, 1), q(1, 1), k(1, 1), v(1, 1),
      out(1, 1);
  for (uint16_t& x : cache_k.data) x = 0x7fc0;
  const std::vector<uint16_t> before = cache_k.data;
  k.Fill(0, 0, 1.0);
  BatchMetadata batch;
  batch.batch = 1;
  batch.total_q = 1;
  batch.cache_seqlens = &length;
  batch.append = true;
  batch.max_seqlen_k = 64;
  PagedParams params;
  params.q = q.Input();
  params.cache = {cache_k.data.data(),
                  cache_v.data.data(),
                  1,
                  32,
                  32 * 64,
                  64,
                  64,
                  32 * 64,
                  64,
                  64};
  params.block_table = {table.data(), 2, 2};
  params.append.k = k.Input();
  params.append.v = v.Input();
  params.append.total_tokens = 1;
  params.out = out.Output();
  ASSERT_OK_AND_ASSIGN(
      const ReferenceOutput output,
      ReferencePagedForward(SmallConfig(1, 1, true), batch, params));
  EXPECT_EQ(output.out[0], 0.0);
  EXPECT_EQ(output.lse[0], -kInfinity);
  EXPECT_EQ(cache_k.data, before);
}

// Rotating by a quarter turn at position 1: (x, y) becomes (-y, x).
TEST(ReferencePagedTest, RotatesAppendedKeysAtTheirPositions) {
  const int32_t length = 1;
  const std::vector<int32_t> table = {0, 0};
  HostTensor cache_k(32, 1), cache_v(32, 1), q(1, 1), k(1, 1), v(1, 1),
      out(1, 1);
  for (int d = 0; d < 64; ++d) k.At(0, 0)[d] = FromDouble(kBf16, d + 1);
  // cos and sin [64, 1]: pair 0 alone is rotated.
  std::vector<uint16_t> cosines(64, FromDouble(kBf16, 1));
  std::vector<uint16_t> sines(64, FromDouble(kBf16, 0));
  cosines[1] = FromDouble(kBf16, 0);
  sines[1] = FromDouble(kBf16, 1);
  PlanConfig config = SmallConfig(1, 1, true);
  config.rotate_queries = true;
  BatchMetadata batch;
  batch.batch = 1;
  batch.total_q = 1;
  batch.cache_seqlens = &length;
  batch.append = true;
  batch.max_seqlen_k = 64;
  PagedParams params;
  params.q = q.Input();
  params.cache = {cache_k.data.data(),
                  cache_v.data.data(),
                  1,
                  32,
                  32 * 64,
                  64,
                  64,
                  32 * 64,
                  64,
                  64};
  params.block_table = {table.data(), 2, 2};
  params.append.k = k.Input();
  params.append.v = v.Input();
  params.append.total_tokens = 1;
  params.append.rotary = {cosines.data(), sines.data(), 2, 64, false};
  params.out = out.Output();
  ASSERT_OK_AND_ASSIGN(const ReferenceOutput output,
                       ReferencePagedForward(config, batch, params));
  EXPECT_EQ(ToDouble(kBf16, cache_k.At(1, 0)[0]), -2.0);
  EXPECT_EQ(ToDouble(kBf16, cache_k.At(1, 0)[1]), 1.0);
  EXPECT_EQ(ToDouble(kBf16, cache_k.At(1, 0)[2]), 3.0);
}

TEST(ReferenceScatterTest, WritesBySlotAndSkipsNegative) {
  HostTensor k(3, 2), v(3, 2), cache_k(8, 2), cache_v(8, 2);
  for (int t = 0; t < 3; ++t) {
    for (int h = 0; h < 2; ++h) {
      k.Fill(t, h, 10 * t + h + 1);
      v.Fill(t, h, 100 * t + h + 1);
    }
  }
  const std::vector<int64_t> slots = {5, -1, 2};
  ScatterParams params;
  params.shape = {kBf16, 2, 2, 64};
  params.k = k.Input();
  params.v = v.Input();
  params.total_tokens = 3;
  params.slot_mapping = slots.data();
  params.cache = {cache_k.data.data(),
                  cache_v.data.data(),
                  2,
                  4,
                  4 * 128,
                  128,
                  64,
                  4 * 128,
                  128,
                  64};
  ASSERT_THAT(ReferenceScatter(params), IsOk());
  EXPECT_EQ(ToDouble(kBf16, *cache_k.At(5, 1)), 2.0);
  EXPECT_EQ(ToDouble(kBf16, *cache_v.At(2, 0)), 201.0);
  EXPECT_EQ(*cache_k.At(0, 0), 0);

  // And back by table: sequence 0 is slots 4, 5; sequence 1 is slots 0, 1, 2.
  HostTensor back_k(5, 2), back_v(5, 2);
  const std::vector<int32_t> table = {1, 0};
  const std::vector<int32_t> cu_k = {0, 2, 5};
  GatherParams gather;
  gather.shape = params.shape;
  gather.cache = params.cache;
  gather.block_table = {table.data(), 1, 1};
  gather.batch = 2;
  gather.cu_seqlens_k = cu_k.data();
  gather.total_k = 5;
  gather.k = back_k.Output();
  gather.v = back_v.Output();
  ASSERT_THAT(ReferenceGather(gather), IsOk());
  EXPECT_EQ(ToDouble(kBf16, *back_k.At(1, 1)), 2.0);
  EXPECT_EQ(ToDouble(kBf16, *back_v.At(4, 0)), 201.0);
}

TEST(ReferenceMergeTest, WeighsByLse) {
  HostTensor a(2, 1), b(2, 1), out(2, 1);
  a.Fill(0, 0, 1.0);
  b.Fill(0, 0, 4.0);
  a.Fill(1, 0, std::nan(""));
  b.Fill(1, 0, std::nan(""));
  const float minus = -std::numeric_limits<float>::infinity();
  const std::vector<float> lse_a = {static_cast<float>(std::log(2.0)), minus};
  const std::vector<float> lse_b = {0.0f, minus};
  std::vector<float> lse(2);
  MergeParams params;
  params.shape = {kBf16, 1, 1, 64};
  params.total_q = 2;
  params.a = a.Input();
  params.b = b.Input();
  params.lse_a = lse_a.data();
  params.lse_b = lse_b.data();
  params.out = out.Output();
  params.lse = lse.data();
  ASSERT_THAT(ReferenceMergeStates(params), IsOk());
  EXPECT_EQ(ToDouble(kBf16, *out.At(0, 0)), 2.0);  // (2 * 1 + 1 * 4) / 3
  EXPECT_NEAR(lse[0], std::log(3.0), 1e-6);
  EXPECT_EQ(ToDouble(kBf16, *out.At(1, 0)), 0.0);
  EXPECT_EQ(lse[1], minus);
}

TEST(ReferenceVarlenTest, RefusesWhatTheKernelsRefuse) {
  OneHeadVarlen run(1, {0.0}, {1.0});
  PlanConfig config = SmallConfig(1, 1, true);
  config.shape.head_dim = 72;
  EXPECT_THAT(run.Run(config), StatusIs(absl::StatusCode::kInvalidArgument,
                                        HasSubstr("head_dim")));
}

}  // namespace
}  // namespace interleave::attention
