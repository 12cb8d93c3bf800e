#include "sim/cost/roofline.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "base/sim_time.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/cost/batch_shape.h"
#include "sim/cost/specs.h"

namespace interleave::sim {
namespace {

using ::testing::HasSubstr;

// The same small generator on every machine.
class Random {
 public:
  int64_t Uniform(int64_t below) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>((state_ >> 33) % static_cast<uint64_t>(below));
  }

 private:
  uint64_t state_ = 1;
};

RooflineOptions Ideal() {
  RooflineOptions options;
  options.set_gemm_compute_efficiency(1);
  options.set_gemm_memory_efficiency(1);
  options.set_attention_compute_efficiency(1);
  options.set_attention_memory_efficiency(1);
  options.set_elementwise_memory_efficiency(1);
  options.set_link_efficiency(1);
  return options;
}

std::unique_ptr<CostModel> Create(const char* model_name,
                                  const char* device_name,
                                  const RooflineOptions& options,
                                  int tensor_parallel = 1) {
  auto model = LookupModel(model_name);
  auto device = LookupDevice(device_name);
  Parallelism parallelism;
  parallelism.tensor_parallel = tensor_parallel;
  auto cost =
      CreateRoofline(model.value(), device.value(), parallelism, options);
  EXPECT_OK(cost);
  return *std::move(cost);
}

BatchShape Decodes(int64_t count, int64_t kv_each) {
  BatchShape shape;
  shape.decode = {.count = count,
                  .kv_tokens = count * kv_each,
                  .kv_tokens_squared = count * kv_each * kv_each,
                  .kv_tokens_max = kv_each};
  return shape;
}

BatchShape Prefill(const std::vector<PrefillChunk>& chunks) {
  BatchShape shape;
  shape.prefill = chunks;
  for (const PrefillChunk& chunk : chunks) {
    shape.prefill_tokens += chunk.query_tokens;
  }
  return shape;
}

TEST(RooflineTest, OneDecodeReadsWeightsAndItsKv) {
  const auto cost = Create("llama3.1_8b", "h200", Ideal());
  // Linear weights of a layer: 4096 x 6144, 4096 x 4096, 3 x 4096 x 14336; LM
  // head 4096 x 128256: two bytes each.
  const double weights = 2.0 * (32.0 * 218'103'808 + 4096.0 * 128'256);
  // Rows in and out: (4096 + 6144) + (4096 + 4096) + (4096 + 28672) +
  // (14336 + 4096) a layer, 4096 + 128256 once.
  const double rows = 2.0 * (32.0 * 69'632 + 132'352);
  // Elementwise: 8 x 4096 + 2 x (4096 + 1024) + 4 x 1024 + 3 x 14336 a layer,
  // 6 x 4096 once.
  const double elementwise = 2.0 * (32.0 * 90'112 + 24'576);
  // 1,000 cached tokens and its own: 131,072 bytes each; query and output.
  const double attention = 131'072.0 * 1'001 + 32.0 * 4.0 * 4096;
  const double ns = (weights + rows + elementwise + attention) / 4.8e12 * 1e9;
  EXPECT_NEAR(
      static_cast<double>(cost->IterationTime(Decodes(1, 1'000)).nanos()), ns,
      0.51);
  // 15.01 GB of weights over 4.8 TB/s alone are 3.13 ms.
  EXPECT_NEAR(ns, weights / 4.8e12 * 1e9, 0.02 * ns);
}

TEST(RooflineTest, LongPrefillIsArithmetic) {
  const auto cost = Create("llama3.1_8b", "h200", Ideal());
  const double tokens = 8'192;
  const double linear = 2.0 * 32 * 218'103'808 * tokens;
  const double attention = 32.0 * 4 * 4096 * tokens * (tokens + 1) / 2;
  // The LM head runs for one sequence: its weights from memory.
  const double lm_head =
      2.0 * (4096.0 * 128'256 + 4096 + 128'256) / 4.8e12 * 1e9;
  const double elementwise =
      2.0 * (32.0 * 90'112 + 24'576) * tokens / 4.8e12 * 1e9;
  const double ns =
      (linear + attention) / 989.4e12 * 1e9 + lm_head + elementwise;
  EXPECT_NEAR(
      static_cast<double>(cost->IterationTime(Prefill({{8'192, 0}})).nanos()),
      ns, 1.0);
}

TEST(RooflineTest, ChunksOfAPromptAddUpToItsAttention) {
  // With weights free of charge (all compute-bound), chunks of one prompt cost
  // its FLOPs exactly, but for LM heads and constant terms: compare attention
  // through the difference that context makes.
  const auto cost = Create("llama3.1_8b", "h200", Ideal());
  const auto at = [&](int32_t context) {
    return cost->IterationTime(Prefill({{1'024, context}})).nanos();
  };
  // 1,024 more cached tokens: 1,024 x 1,024 more pairs.
  const double pairs_ns = 32.0 * 4 * 4096 * 1'024 * 1'024 / 989.4e12 * 1e9;
  EXPECT_NEAR(static_cast<double>(at(4'096) - at(3'072)), pairs_ns, 1.0);
}

TEST(RooflineTest, DecodeGoesOverToArithmeticWithManyHeadsOnly) {
  // 4 FLOPs x 32 heads against 4 bytes x 8 KV heads a cached token: memory by
  // far on any device here, so one more cached token costs its bytes.
  const auto cost = Create("llama3.1_8b", "h200", Ideal());
  const auto delta = cost->IterationTime(Decodes(64, 100'001)).nanos() -
                     cost->IterationTime(Decodes(64, 100'000)).nanos();
  EXPECT_NEAR(static_cast<double>(delta), 64 * 131'072.0 / 4.8e12 * 1e9, 1.0);
}

TEST(RooflineTest, TensorParallelDividesAndAddsAllReduces) {
  RooflineOptions options = Ideal();
  const auto one = Create("llama3.1_70b", "h100_sxm", options);
  const auto four = Create("llama3.1_70b", "h100_sxm", options, 4);
  const double t1 =
      static_cast<double>(one->IterationTime(Decodes(1, 100)).nanos());
  const double t4 =
      static_cast<double>(four->IterationTime(Decodes(1, 100)).nanos());
  // 160 all-reduces of 4.3 us, and 1.5 x 16 KiB over 450 GB/s each.
  const double reduces = 160 * (4'300 + 1.5 * 8192 * 2 / 450.0);
  EXPECT_NEAR(t4 - reduces, t1 / 4, 0.001 * t1);
}

TEST(RooflineTest, Fp8HalvesWeightTraffic) {
  auto model = LookupModel("llama3.1_70b").value();
  const auto device = LookupDevice("h100_sxm").value();
  const auto bf16 = CreateRoofline(model, device, {}, Ideal()).value();
  model.set_weight_format(FP8);
  const auto fp8 = CreateRoofline(model, device, {}, Ideal()).value();
  const double linear_weights =
      80.0 * (8192.0 * 10'240 + 8192.0 * 8192 + 3.0 * 8192 * 28'672);
  EXPECT_NEAR(static_cast<double>(bf16->IterationTime(Decodes(1, 1)).nanos() -
                                  fp8->IterationTime(Decodes(1, 1)).nanos()),
              linear_weights / 3.35e12 * 1e9, 1.0);
}

TEST(RooflineTest, ExpertsTouched) {
  const auto cost = Create("mixtral_8x7b", "h200", Ideal());
  // One token reads 2 of 8 experts, two tokens 8 x (1 - (6/8)^2) = 3.5.
  const double expert_bytes = 32.0 * 3 * 4096 * 14'336 * 2;
  const double per_row = 2.0 * (32.0 * ((4096 + 6144) + (4096 + 4096) +
                                        2.0 * (4096 + 28'672 + 14'336 + 4096)) +
                                4096 + 32'000);
  const double elementwise =
      2.0 * (32.0 * (8 * 4096 + 2 * 5120 + 4 * 1024 + 6 * 14'336) + 24'576);
  const double attention = 131'072.0 * 2 + 32.0 * 4 * 4096;
  const double expected =
      (1.5 * expert_bytes + per_row + elementwise + attention) / 4.8e12 * 1e9;
  const auto delta = cost->IterationTime(Decodes(2, 1)).nanos() -
                     cost->IterationTime(Decodes(1, 1)).nanos();
  EXPECT_NEAR(static_cast<double>(delta), expected, 1.0);
}

TEST(RooflineTest, SwapGoesOverTheHostLink) {
  const auto cost = Create("llama3.1_8b", "h200", Ideal());
  BatchShape shape = Decodes(1, 1'000);
  const int64_t without = cost->IterationTime(shape).nanos();
  shape.swapped_out_blocks = 100;
  shape.swapped_in_blocks = 50;
  // 150 blocks x 16 tokens x 131,072 bytes over 64 GB/s.
  EXPECT_NEAR(static_cast<double>(cost->IterationTime(shape).nanos() - without),
              150.0 * 16 * 131'072 / 64.0, 1.0);
}

TEST(RooflineTest, ConstantIsAdded) {
  RooflineOptions options = Ideal();
  const auto without = Create("llama3.1_8b", "h200", options);
  options.set_constant_us(250);
  const auto with = Create("llama3.1_8b", "h200", options);
  EXPECT_EQ(with->IterationTime(Decodes(3, 77)).nanos() -
                without->IterationTime(Decodes(3, 77)).nanos(),
            250'000);
}

TEST(RooflineTest, OverlappedMixedAttentionIsBelowSerial) {
  RooflineOptions options;
  const auto serial = Create("llama3.1_8b", "h200", options);
  options.set_mixed_attention(RooflineOptions::OVERLAPPED);
  const auto overlapped = Create("llama3.1_8b", "h200", options);
  BatchShape shape = Decodes(128, 4'096);
  // Alone they agree to the last bit.
  EXPECT_EQ(serial->IterationTime(shape), overlapped->IterationTime(shape));
  const std::vector<PrefillChunk> chunks = {{512, 16'384}};
  shape.prefill = chunks;
  shape.prefill_tokens = 512;
  EXPECT_LT(overlapped->IterationTime(shape), serial->IterationTime(shape));
}

TEST(RooflineTest, MoreWorkNeverCostsLess) {
  Random random;
  for (const NamedSpec& model : ListModels()) {
    for (const NamedSpec& device : ListDevices()) {
      // An FP8 model needs a device with FP8.
      if (LookupModel(model.name).value().weight_format() == FP8 &&
          LookupDevice(device.name).value().fp8_flops_per_s() == 0) {
        continue;
      }
      const auto cost =
          Create(model.name.c_str(), device.name.c_str(), RooflineOptions());
      for (int i = 0; i < 200; ++i) {
        std::vector<PrefillChunk> chunks(
            static_cast<size_t>(random.Uniform(4)));
        for (PrefillChunk& chunk : chunks) {
          chunk = {static_cast<int32_t>(1 + random.Uniform(2'048)),
                   static_cast<int32_t>(random.Uniform(30'000))};
        }
        BatchShape shape =
            Decodes(1 + random.Uniform(256), random.Uniform(20'000));
        const DecodeGroup decode = shape.decode;
        shape = Prefill(chunks);
        shape.decode = decode;
        const SimDuration base = cost->IterationTime(shape);
        BatchShape more = shape;
        more.decode.kv_tokens += random.Uniform(10'000);
        EXPECT_GE(cost->IterationTime(more), base);
        more = shape;
        more.decode.count += 1;
        EXPECT_GE(cost->IterationTime(more), base);
        if (chunks.empty()) continue;
        chunks[0].context_tokens += 100;
        more = shape;
        EXPECT_GE(cost->IterationTime(more), base);
        chunks[0].query_tokens += 10;
        more.prefill_tokens += 10;
        EXPECT_GE(cost->IterationTime(more), base);
      }
    }
  }
}

TEST(RooflineTest, DecodeTimesEqualsIterationByIteration) {
  Random random;
  for (const char* model : {"llama3.1_8b", "mixtral_8x7b"}) {
    for (const auto mixed :
         {RooflineOptions::SERIAL, RooflineOptions::OVERLAPPED}) {
      RooflineOptions options;
      options.set_mixed_attention(mixed);
      options.set_constant_us(12.3);
      const auto cost = Create(model, "h100_sxm", options, 2);
      for (int i = 0; i < 100; ++i) {
        BatchShape shape =
            Decodes(1 + random.Uniform(512), random.Uniform(100'000));
        std::vector<SimDuration> times(
            static_cast<size_t>(1 + random.Uniform(100)));
        cost->DecodeTimes(shape.decode, absl::MakeSpan(times));
        for (const SimDuration time : times) {
          ASSERT_EQ(time, cost->IterationTime(shape));
          shape.decode.Advance();
        }
      }
    }
  }
}

TEST(RooflineTest, CountsQueriesAndNamesItself) {
  const auto cost = Create("llama3.1_8b", "h200", RooflineOptions(), 2);
  cost->IterationTime(Decodes(1, 1));
  std::vector<SimDuration> times(5);
  cost->DecodeTimes(Decodes(2, 7).decode, absl::MakeSpan(times));
  EXPECT_EQ(cost->stats().queries, 6);
  EXPECT_EQ(cost->stats().outside_grid, 0);
  EXPECT_FALSE(cost->NeedsKvTokensMax());
  EXPECT_EQ(cost->Description(), "roofline of llama3.1_8b (BF16) on 2 x h200");
}

TEST(RooflineTest, BadOptions) {
  ModelSpec model = LookupModel("llama3.1_8b").value();
  const DeviceSpec device = LookupDevice("a100_80gb").value();
  RooflineOptions options;
  options.set_link_efficiency(0);
  EXPECT_THAT(CreateRoofline(model, device, {}, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("link_efficiency is 0")));
  options.Clear();
  options.set_constant_us(-1);
  EXPECT_THAT(
      CreateRoofline(model, device, {}, options),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("constant_us")));
  options.Clear();
  EXPECT_THAT(CreateRoofline(model, device, {.tensor_parallel = 5}, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("does not divide")));
  EXPECT_THAT(
      CreateRoofline(model, device, {.block_size = 0}, options),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("block_size")));
  model.set_weight_format(FP8);
  EXPECT_THAT(
      CreateRoofline(model, device, {}, options),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no FP8 rate")));
}

}  // namespace
}  // namespace interleave::sim
