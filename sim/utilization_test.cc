#include "sim/utilization.h"

#include <cmath>

#include "base/sim_time.h"
#include "gtest/gtest.h"
#include "sim/cost/device.pb.h"
#include "sim/cost/model.pb.h"
#include "sim/metrics/metrics.h"

namespace interleave::sim {
namespace {

// Two layers; 4 query heads and 2 KV heads of 8; hidden 32, MLP 64, 100 words.
ModelSpec SmallModel() {
  ModelSpec model;
  model.set_num_layers(2);
  model.set_hidden_size(32);
  model.set_num_heads(4);
  model.set_num_kv_heads(2);
  model.set_head_dim(8);
  model.set_intermediate_size(64);
  model.set_vocab_size(100);
  model.set_tied_embeddings(true);
  return model;
}

DeviceSpec SmallDevice() {
  DeviceSpec device;
  device.set_bf16_flops_per_s(1e9);
  device.set_memory_bytes_per_s(1e8);
  return device;
}

// A prompt of 10 tokens, then one decode over 10 cached ones; 1 ms each.
Metrics TwoIterations() {
  Metrics metrics;
  IterationRecord record;
  record.end = SimTime::FromSeconds(0.001);
  record.prefill_tokens = 10;
  metrics.AddIteration(record);
  metrics.AddPrefillPairs(10, 0);
  record.start = record.end;
  record.end = SimTime::FromSeconds(0.002);
  record.prefill_tokens = 0;
  record.decodes = 1;
  record.decode_kv_tokens = 10;
  metrics.AddIteration(record);
  RequestRecord request;
  request.prompt_tokens = 10;
  request.output_tokens = 2;
  metrics.AddRequest(request);
  return metrics;
}

TEST(UtilizationTest, ByHand) {
  // A layer has 32 x (32 + 32 + 16 + 16) attention and 3 x 32 x 64 MLP weights:
  // 9,216.  11 tokens: 2 x 2 x 9,216 x 11 = 405,504.  Attention: 55 pairs of
  // the prompt, 11 of the decode, 4 x 2 x 4 x 8 each: 16,896.  LM head, two
  // tokens: 2 x 2 x 32 x 100 = 12,800.
  const Utilization utilization =
      ComputeUtilization(TwoIterations(), SmallModel(), SmallDevice(), 1);
  EXPECT_DOUBLE_EQ(utilization.mfu, (405504 + 16896 + 12800) / (0.002 * 1e9));
  // Weights in 16 bits: 2 x (2 x (9,216 + 64) + 3,200 + 32) = 43,584 bytes,
  // twice.  KV of a token: 2 x 2 x 2 x 8 x 2 = 128 bytes; 11 read, 11 written.
  EXPECT_DOUBLE_EQ(utilization.mbu, (2 * 43584 + 22 * 128) / (0.002 * 1e8));
}

TEST(UtilizationTest, DevicesShareTheWork) {
  const Utilization one =
      ComputeUtilization(TwoIterations(), SmallModel(), SmallDevice(), 1);
  const Utilization two =
      ComputeUtilization(TwoIterations(), SmallModel(), SmallDevice(), 2);
  EXPECT_DOUBLE_EQ(two.mfu, one.mfu / 2);
  EXPECT_DOUBLE_EQ(two.mbu, one.mbu / 2);
}

TEST(UtilizationTest, TokensTouchSomeOfTheExperts) {
  ModelSpec model = SmallModel();
  model.set_num_experts(4);
  model.set_experts_per_token(1);
  const Utilization sparse =
      ComputeUtilization(TwoIterations(), model, SmallDevice(), 1);
  // The routers, 2 x 32 x 4 weights, are all that is computed besides.
  EXPECT_DOUBLE_EQ(sparse.mfu,
                   (405504 + 2 * 2 * 128 * 11 + 16896 + 12800) / (0.002 * 1e9));
  // 5.5 tokens an iteration leave (3/4)^5.5 of 4 x 2 x 6,144 weights alone.
  const double all = 2.0 * (2 * (3072 + 4 * 6144 + 64 + 128) + 3200 + 32);
  const double untouched = std::pow(0.75, 5.5) * 2 * 4 * 2 * 6144;
  EXPECT_DOUBLE_EQ(sparse.mbu,
                   (2 * (all - untouched) + 22 * 128) / (0.002 * 1e8));
}

TEST(UtilizationTest, NoIterationsUseNothing) {
  const Utilization utilization =
      ComputeUtilization(Metrics(), SmallModel(), SmallDevice(), 1);
  EXPECT_EQ(utilization.mfu, 0);
  EXPECT_EQ(utilization.mbu, 0);
}

}  // namespace
}  // namespace interleave::sim
