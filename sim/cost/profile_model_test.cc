#include "sim/cost/profile_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
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
#include "sim/cost/level.h"
#include "sim/cost/specs.h"

namespace interleave::sim {
namespace {

using ::testing::HasSubstr;

constexpr int kLayers = 10;

// Attention: prefill chunk + context / 16, decode n x (kv / 16), mixed the sum
// plus 100; exact by multilinear interpolation.  One dense layer costs 1 us a
// token, the LM head 2 us a sequence.
ProfileTables Tables(bool skew = false) {
  std::string attention =
      "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n";
  for (const int chunk : {0, 16, 256, 2048}) {
    for (const int context : {0, 64, 4096}) {
      for (const int n : {0, 1, 8, 64}) {
        for (const int kv : {16, 1024, 8192}) {
          if (chunk == 0 && (n == 0 || context > 0)) continue;
          if (n == 0 && kv > 16) continue;
          const double prefill = chunk > 0 ? chunk + context / 16.0 : 0;
          const double decode = n * (kv / 16.0);
          absl::StrAppend(
              &attention, chunk, ",", context, ",", n, ",", n > 0 ? kv : 0, ",",
              prefill + decode + (chunk > 0 && n > 0 ? 100 : 0), "\n");
        }
      }
    }
  }
  ProfileTables tables;
  tables.attention = ParseAttention(attention, "attention.csv").value();
  tables.dense = ParseLayerCurves(
                     "layer,tokens,time_us\nmlp,1,1\nmlp,512,512\n"
                     "mlp,4096,4096\n",
                     "dense.csv", "tokens")
                     .value();
  tables.per_sequence = ParseLayerCurves(
                            "layer,sequences,time_us\nlm_head,1,2\n"
                            "lm_head,100,200\n",
                            "per_sequence.csv", "sequences")
                            .value();
  if (skew) {
    tables.skew =
        ParseSkewFit(
            "pc,n_label,skew_rate_label,kv_big_label,kp_label,alpha,n_samples\n"
            "0,n<=64,sr<=40%,kvB<=8k,kp=0,0.25,1\n"
            "0,n<=64,sr>40%,kvB<=8k,kp=0,0.75,1\n"
            "16,n<=64,sr>40%,kvB<=8k,kp=0,0.5,1\n",
            "skew_fit.csv")
            .value();
  }
  return tables;
}

ProfileOptions Options() {
  ProfileOptions options;
  options.set_num_layers(kLayers);
  LayerUse* mlp = options.add_layers();
  mlp->set_layer("mlp");
  mlp->set_per_layer(1);
  LayerUse* lm_head = options.add_layers();
  lm_head->set_layer("lm_head");
  lm_head->set_per_iteration(1);
  return options;
}

std::unique_ptr<CostModel> Create(const ProfileOptions& options,
                                  ProfileTables tables = Tables()) {
  auto cost = CreateProfileModel(LookupModel("llama3.1_8b").value(),
                                 LookupDevice("rtx_4090").value(), {}, options,
                                 std::move(tables));
  EXPECT_OK(cost);
  return *std::move(cost);
}

DecodeGroup Decodes(const std::vector<int64_t>& lengths) {
  DecodeGroup group;
  for (const int64_t length : lengths) {
    ++group.count;
    group.kv_tokens += length;
    group.kv_tokens_squared += length * length;
    group.kv_tokens_max = std::max(group.kv_tokens_max, length);
  }
  return group;
}

// The shape refers to `chunks`.
BatchShape Shape(const std::vector<PrefillChunk>& chunks,
                 const std::vector<int64_t>& decodes) {
  BatchShape shape;
  shape.prefill = chunks;
  for (const PrefillChunk& chunk : chunks) {
    shape.prefill_tokens += chunk.query_tokens;
  }
  shape.decode = Decodes(decodes);
  return shape;
}

// Microseconds of attention in one layer.
double AttentionUs(CostModel& cost, const std::vector<PrefillChunk>& chunks,
                   const std::vector<int64_t>& decodes) {
  const BatchShape shape = Shape(chunks, decodes);
  const double us = cost.IterationTime(shape).micros();
  return (us - 2.0 * static_cast<double>(shape.num_sequences())) / kLayers -
         static_cast<double>(shape.num_tokens());
}

TEST(ProfileModelTest, AddsUp) {
  const auto cost = Create(Options());
  // 3 tokens x 1 us + attention 3 x (1,024 / 16) us, ten times; 3 x 2 us.
  EXPECT_EQ(cost->IterationTime(Shape({}, {1024, 1024, 1024})),
            SimDuration::Micros(10 * (3 + 192) + 6));
  EXPECT_EQ(cost->IterationTime(Shape({{256, 64}}, {})),
            SimDuration::Micros(10 * (256 + 260) + 2));
  EXPECT_EQ(cost->IterationTime(Shape({{256, 64}}, {1024})),
            SimDuration::Micros(10 * (257 + 260 + 64 + 100) + 4));
  EXPECT_EQ(cost->stats().queries, 3);
  EXPECT_EQ(cost->stats().outside_grid, 0);
}

TEST(ProfileModelTest, InterpolatesBetweenNeighbours) {
  const auto cost = Create(Options());
  EXPECT_NEAR(AttentionUs(*cost, {{100, 1000}}, {}), 100 + 62.5, 1e-3);
  EXPECT_NEAR(AttentionUs(*cost, {}, {5000, 5000}), 2 * 312.5, 1e-3);
  EXPECT_NEAR(AttentionUs(*cost, {{100, 1000}}, {5000, 5000}),
              162.5 + 625 + 100, 1e-3);
  EXPECT_EQ(cost->stats().outside_grid, 0);
}

TEST(ProfileModelTest, ShortChunksAndShortCachesCostTheSmallestMeasured) {
  const auto cost = Create(Options());
  EXPECT_NEAR(AttentionUs(*cost, {{2, 0}}, {1024}), 16 + 64 + 100, 1e-3);
  EXPECT_NEAR(AttentionUs(*cost, {}, {1}), 1, 1e-3);
  EXPECT_EQ(cost->stats().outside_grid, 0);
}

TEST(ProfileModelTest, OneTokenChunkIsADecode) {
  const auto cost = Create(Options());
  EXPECT_EQ(cost->IterationTime(Shape({{1, 1024}}, {1024})),
            cost->IterationTime(Shape({}, {1024, 1024})));
  EXPECT_EQ(cost->IterationTime(Shape({{1, 1024}, {256, 0}}, {1024})),
            cost->IterationTime(Shape({{256, 0}}, {1024, 1024})));
}

TEST(ProfileModelTest, OutsideIsExtendedAndCounted) {
  const auto cost = Create(Options());
  // Context 8,192 > 4,096: the line goes on.
  EXPECT_NEAR(AttentionUs(*cost, {{256, 8192}}, {}), 256 + 512, 1e-3);
  EXPECT_EQ(cost->stats().outside_grid, 1);
  EXPECT_NEAR(AttentionUs(*cost, {}, {16384}), 1024, 1e-3);
  EXPECT_EQ(cost->stats().outside_grid, 2);
  // More tokens than dense.csv has, and more sequences than per_sequence.csv.
  EXPECT_EQ(cost->IterationTime(Shape({{5000, 0}}, {})).nanos(),
            (10 * 10'000 + 2) * 1'000);
  EXPECT_EQ(cost->stats().outside_grid, 3);
  EXPECT_EQ(cost->IterationTime(Shape({}, std::vector<int64_t>(200, 16))),
            SimDuration::Micros(10 * (200 + 200) + 400));
  EXPECT_EQ(cost->stats().outside_grid, 4);
  EXPECT_EQ(cost->stats().queries, 4);
}

struct MappingCase {
  ProfileOptions::ChunkMapping mapping;
  // Attention of chunks (256 after 64) and (32 after 2,048), no decode.
  double us;
};

class ChunkMappingTest : public testing::TestWithParam<MappingCase> {};

INSTANTIATE_TEST_SUITE_P(
    All, ChunkMappingTest,
    testing::Values(
        // Work 256 x (64 + 128) + 32 x (2048 + 16) = 115,200 = 288 x 400:
        // context 400 - 144 = 256.
        MappingCase{ProfileOptions::EQUAL_WORK, 288 + 256 / 16.0},
        MappingCase{ProfileOptions::WEIGHTED_CONTEXT,
                    288 + (256 * 64 + 32 * 2048) / 288.0 / 16.0},
        MappingCase{ProfileOptions::MEAN_CONTEXT, 288 + 1056 / 16.0},
        MappingCase{ProfileOptions::TOTAL_CONTEXT, 288 + 2112 / 16.0},
        // 32 x 2,064 is more work than 256 x 192: it decides; the other adds
        // its 260 us alone less the cheapest 16.
        MappingCase{ProfileOptions::LARGEST_PLUS_REST, 32 + 128 + (260 - 16)}));

TEST_P(ChunkMappingTest, TwoChunks) {
  ProfileOptions options = Options();
  options.set_chunk_mapping(GetParam().mapping);
  const auto cost = Create(options);
  EXPECT_NEAR(AttentionUs(*cost, {{256, 64}, {32, 2048}}, {}), GetParam().us,
              1e-3);
  // One chunk is itself under every rule.
  EXPECT_NEAR(AttentionUs(*cost, {{32, 2048}}, {1024}), 160 + 64 + 100, 1e-3);
}

TEST(ProfileModelTest, SeveralPromptsAreLessWorkThanOneLongOne) {
  ProfileOptions options = Options();
  options.set_query_overhead_keys(0);
  auto cost = Create(options);
  // Two prompts of 100: the work of one of sqrt(2 x 2 x 5,000) = 141.42.
  EXPECT_NEAR(AttentionUs(*cost, {{100, 0}, {100, 0}}, {}), std::sqrt(20'000.0),
              1e-3);
  // With 50 keys a query: 2 x (5,000 + 5,000) = q^2 / 2 + 50 q, q = 156.155.
  options.set_query_overhead_keys(50);
  cost = Create(options);
  EXPECT_NEAR(AttentionUs(*cost, {{100, 0}, {100, 0}}, {}),
              std::sqrt(2'500.0 + 40'000.0) - 50, 1e-3);
}

TEST(ProfileModelTest, QueryOverheadFromTheTable) {
  // t = 16 for the smallest, 2,048 without context, 256 more for 4,096 keys:
  // 2,032 / (256 / 4,096) - 1,024 keys.
  const double keys = 2'032 * 16 - 1'024;
  ProfileOptions options = Options();
  const auto derived = Create(options);
  options.set_query_overhead_keys(keys);
  const auto given = Create(options);
  const std::vector<PrefillChunk> chunks = {{100, 0}, {300, 0}};
  EXPECT_EQ(derived->IterationTime(Shape(chunks, {})),
            given->IterationTime(Shape(chunks, {})));
  options.set_query_overhead_keys(0);
  EXPECT_LT(Create(options)->IterationTime(Shape(chunks, {})),
            given->IterationTime(Shape(chunks, {})));
}

TEST(ProfileModelTest, AdditiveRuleForgetsWhatMixingCosts) {
  ProfileOptions options = Options();
  options.set_mixed_rule(ProfileOptions::ADDITIVE);
  const auto cost = Create(options);
  EXPECT_NEAR(AttentionUs(*cost, {{256, 64}}, {1024}), 260 + 64, 1e-3);
}

TEST(ProfileModelTest, SkewByHand) {
  const auto cost = Create(Options(), Tables(/*skew=*/true));
  EXPECT_TRUE(cost->NeedsKvTokensMax());
  // One of four is long: share 25%, alpha 0.25.  Mean 2,048, longest 5,120:
  // 4 x 128 us + 0.25 x 4 x (320 - 128) us.
  EXPECT_NEAR(AttentionUs(*cost, {}, {1024, 1024, 1024, 5120}), 512 + 192,
              1e-3);
  // Three of four: share 75%, alpha 0.75; mean 4,096.
  EXPECT_NEAR(AttentionUs(*cost, {}, {1024, 5120, 5120, 5120}),
              4 * 256 + 0.75 * 4 * 64, 1e-3);
  // Even lengths and single sequences: no correction.
  EXPECT_NEAR(AttentionUs(*cost, {}, {1024, 1024}), 128, 1e-3);
  EXPECT_NEAR(AttentionUs(*cost, {}, {5120}), 320, 1e-3);
  // Beside a chunk its own alpha.
  EXPECT_NEAR(AttentionUs(*cost, {{16, 0}}, {1024, 5120, 5120, 5120}),
              16 + 100 + 4 * 256 + 0.5 * 4 * 64, 1e-3);
}

TEST(ProfileModelTest, MeanOnlyIgnoresSkew) {
  ProfileOptions options = Options();
  options.set_skew_rule(ProfileOptions::MEAN_ONLY);
  const auto cost = Create(options, Tables(/*skew=*/true));
  EXPECT_FALSE(cost->NeedsKvTokensMax());
  EXPECT_NEAR(AttentionUs(*cost, {}, {1024, 1024, 1024, 5120}), 512, 1e-3);
}

TEST(ProfileModelTest, DecodeTimesEqualsIterationByIteration) {
  for (const bool skew : {false, true}) {
    const auto cost = Create(Options(), Tables(skew));
    const auto fast = Create(Options(), Tables(skew));
    for (const std::vector<int64_t>& lengths :
         {std::vector<int64_t>{3},
          {100, 7},
          {5000, 300, 300},
          std::vector<int64_t>(70, 8190),
          std::vector<int64_t>(150, 1000)}) {
      BatchShape shape = Shape({}, lengths);
      std::vector<SimDuration> times(50);
      fast->DecodeTimes(shape.decode, absl::MakeSpan(times));
      for (const SimDuration time : times) {
        ASSERT_EQ(time, cost->IterationTime(shape));
        shape.decode.Advance();
      }
    }
    EXPECT_EQ(fast->stats().queries, cost->stats().queries);
    EXPECT_EQ(fast->stats().outside_grid, cost->stats().outside_grid);
    EXPECT_GT(fast->stats().outside_grid, 0);
  }
}

// 10 ms; 20% and 10%; memory alone up to 4 tokens, products alone from 256 on.
ProfileTables ThrottledTables() {
  ProfileTables tables = Tables();
  tables.throttle = {10'000, 0.2, 0.1, 4, 256};
  return tables;
}

TEST(ProfileModelTest, ThrottlingByHand) {
  const auto cost = Create(Options(), ThrottledTables());
  const std::vector<PrefillChunk> chunk = {{256, 64}};
  const BatchShape prompt = Shape(chunk, {});
  const BatchShape decodes = Shape({}, {1024, 1024, 1024});
  // The prompt throttles the card itself, by what its 0.5162 time constants
  // leave of a state on average.
  const auto left = [](double x) { return 1 / (1 + x / 2 + x * x / 12); };
  EXPECT_NEAR(cost->IterationTime(prompt).micros(),
              5162 * (1 + 0.2 * (1 - left(0.5162))), 0.002);
  EXPECT_EQ(cost->IterationTime(decodes), SimDuration::Micros(1956));
  // A time constant: 1 - 6 / 16.
  const SimDuration ten = SimDuration::Millis(10);
  cost->Ran(prompt, absl::MakeConstSpan(&ten, 1));
  EXPECT_NEAR(cost->IterationTime(prompt).micros(),
              5162 * (1 + 0.2 * (1 - 0.375 * left(0.5162))), 0.002);
  EXPECT_NEAR(cost->IterationTime(decodes).micros(),
              1956 * (1 + 0.1 * 0.625 * left(0.1956)), 0.002);
  // Asking changes nothing; 30 ms of nothing leave a thirteenth.
  cost->Idle(SimDuration::Millis(30));
  EXPECT_NEAR(cost->IterationTime(decodes).micros(),
              1956 * (1 + 0.1 * 0.625 / 13 * left(0.1956)), 0.002);
}

// A chunk's attention is slowed down as its products are, decodes' attention as
// decodes are.
TEST(ProfileModelTest, ThrottlingOfMixedBatches) {
  const auto cost = Create(Options(), ThrottledTables());
  const std::vector<PrefillChunk> chunk = {{256, 64}};
  const BatchShape mixed = Shape(chunk, {8192});
  // Alone at the largest sizes: 2,048 after 4,096 takes 2,304 us for 2,048 x
  // 5,120 pairs; 64 x 8,192 cached tokens 32,768 us.
  const double chunks = 256 * (64 + 128) * 2304.0 / (2048 * 5120);
  const double share = chunks / (chunks + 8192 / 16.0);
  const double dense = 10 * 257 + 2 * 2;
  const double attention = 10 * (260 + 512 + 100);
  const double x = (dense + attention) / 10'000;
  const double mean = 1 - 1 / (1 + x / 2 + x * x / 12);
  const double us =
      dense * (1 + 0.2 * mean) + attention * (1 + (0.1 + 0.1 * share) * mean);
  EXPECT_NEAR(cost->IterationTime(mixed).micros(), us, 0.01);
}

TEST(ProfileModelTest, LevelsMultiplyWholeBatches) {
  const std::vector<PrefillChunk> chunk = {{256, 64}};
  const BatchShape prompt = Shape(chunk, {});
  const BatchShape decodes = Shape({}, {1024, 1024, 1024});
  ProfileTables tables = Tables();
  tables.levels = {Level({{255, 3}, {256, 0.5}, {512, 3}}),
                   Level({{2, 3}, {3, 2}, {4, 3}})};
  const auto cost = Create(Options(), std::move(tables));
  EXPECT_EQ(cost->IterationTime(prompt), SimDuration::Micros(0.5 * 5162));
  EXPECT_EQ(cost->IterationTime(decodes), SimDuration::Micros(2 * 1956));
  SimDuration time;
  cost->DecodeTimes(decodes.decode, absl::MakeSpan(&time, 1));
  EXPECT_EQ(time, SimDuration::Micros(2 * 1956));
}

TEST(ProfileModelTest, RecoveredRuleForgetsWhatRan) {
  ProfileOptions options = Options();
  options.set_throttle_rule(ProfileOptions::RECOVERED);
  const auto cost = Create(options, ThrottledTables());
  const std::vector<PrefillChunk> chunk = {{256, 64}};
  const SimDuration ten = SimDuration::Millis(10);
  cost->Ran(Shape(chunk, {}), absl::MakeConstSpan(&ten, 1));
  EXPECT_EQ(cost->IterationTime(Shape({}, {1024, 1024, 1024})),
            SimDuration::Micros(1956));
}

TEST(ProfileModelTest, ThrottledDecodeTimesEqualIterationByIteration) {
  const auto cost = Create(Options(), ThrottledTables());
  const std::vector<PrefillChunk> chunk = {{256, 64}};
  const SimDuration ten = SimDuration::Millis(10);
  cost->Ran(Shape(chunk, {}), absl::MakeConstSpan(&ten, 1));
  const DecodeGroup first = Decodes({100, 900, 1'500, 2'000, 4'000});
  std::vector<SimDuration> times(200);
  cost->DecodeTimes(first, absl::MakeSpan(times));
  BatchShape shape;
  shape.decode = first;
  for (const SimDuration time : times) {
    ASSERT_EQ(cost->IterationTime(shape), time);
    cost->Ran(shape, absl::MakeConstSpan(&time, 1));
    shape.decode.Advance();
  }
  // Slower for its longer caches alone: 9,495 tokens of them, 16 a us and
  // layer.
  EXPECT_NEAR(times[199].micros(), 10 * (5 + 9'495 / 16.0) + 10, 0.05);
}

TEST(ProfileModelTest, PaddedTokens) {
  ProfileOptions options = Options();
  for (const int size : {1, 2, 4, 8}) options.add_padded_tokens(size);
  const auto cost = Create(options);
  // Five tokens run as eight; nine as nine.
  EXPECT_EQ(cost->IterationTime(Shape({}, std::vector<int64_t>(5, 1024))),
            SimDuration::Micros(10 * (8 + 320) + 10));
  EXPECT_EQ(cost->IterationTime(Shape({}, std::vector<int64_t>(9, 1024))),
            SimDuration::Micros(10 * (9 + 576) + 18));
}

TEST(ProfileModelTest, LayersOfOneKindOfBatch) {
  ProfileOptions options = Options();
  options.mutable_layers(0)->set_batches(LayerUse::WITH_PREFILL);
  options.mutable_layers(1)->set_batches(LayerUse::DECODES_ALONE);
  const auto cost = Create(options);
  const double attention = 10 * 2 * (1024 / 16.0);
  // Two decodes: only the LM head, 2 us a sequence.
  EXPECT_EQ(cost->IterationTime(Shape({}, {1024, 1024})),
            SimDuration::Micros(4 + attention));
  std::vector<SimDuration> times(1);
  cost->DecodeTimes(Decodes({1024, 1024}), absl::MakeSpan(times));
  EXPECT_EQ(times[0], SimDuration::Micros(4 + attention));
  // With 16 tokens of a prompt: 18 tokens through 10 layers, no LM head.
  EXPECT_EQ(cost->IterationTime(Shape({{16, 0}}, {1024, 1024})),
            SimDuration::Micros(180 + attention + 10 * (16 + 100)));
  // A chunk of one token is a decode.
  EXPECT_EQ(cost->IterationTime(Shape({{1, 1024}}, {1024})),
            SimDuration::Micros(4 + attention));
}

TEST(ProfileModelTest, LayersOfTheTables) {
  ProfileTables tables = Tables();
  const ProfileOptions options = Options();
  tables.layers = {options.layers().begin(), options.layers().end()};
  ProfileOptions none;
  none.set_num_layers(kLayers);
  EXPECT_EQ(Create(none, tables)->IterationTime(Shape({{16, 0}}, {})),
            Create(options)->IterationTime(Shape({{16, 0}}, {})));
}

TEST(ProfileModelTest, TablesOfAnotherModelAreRefused) {
  ProfileTables tables = Tables();
  tables.meta["model_name"] = "llama3.1_8b";
  tables.meta["device_name"] = "h200";
  EXPECT_THAT(
      CreateProfileModel(LookupModel("llama3.1_8b").value(),
                         LookupDevice("rtx_4090").value(), {}, Options(),
                         tables),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("device_name h200, and the run has rtx_4090")));
  EXPECT_OK(CreateProfileModel(LookupModel("llama3.1_8b").value(),
                               LookupDevice("h200").value(), {}, Options(),
                               tables));
}

TEST(ProfileModelTest, SwapGoesOverTheHostLink) {
  const auto cost = Create(Options());
  BatchShape shape = Shape({}, {1024});
  const int64_t without = cost->IterationTime(shape).nanos();
  shape.swapped_in_blocks = 10;
  EXPECT_EQ(cost->IterationTime(shape).nanos() - without,
            10 * 16 * 131'072 / 32);
}

TEST(ProfileModelTest, Errors) {
  const ModelSpec model = LookupModel("llama3.1_8b").value();
  const DeviceSpec device = LookupDevice("h200").value();
  ProfileOptions options = Options();
  EXPECT_THAT(CreateProfileModel(model, device, {.tensor_parallel = 2}, options,
                                 Tables()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("tensor_parallel")));
  options.mutable_layers(0)->set_layer("moe");
  EXPECT_THAT(CreateProfileModel(model, device, {}, options, Tables()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("no layer \"moe\"; it has: mlp, lm_head")));
  options = Options();
  options.mutable_layers(0)->set_per_layer(-1);
  EXPECT_THAT(CreateProfileModel(model, device, {}, options, Tables()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("neither may be negative")));
  options = Options();
  options.add_padded_tokens(2);
  options.add_padded_tokens(1);
  EXPECT_THAT(
      CreateProfileModel(model, device, {}, options, Tables()),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("padded_tokens")));
}

TEST(ProfileModelTest, PublishedProfileByHand) {
  const std::string data = PublicDataFolder();
  if (data.empty()) {
    GTEST_SKIP() << "INTERLEAVE_DATA names no folder with public measurements";
  }
  ASSERT_OK_AND_ASSIGN(
      ProfileTables tables,
      ReadProfileTables(absl::StrCat(data, "/vllm_replay/RTX4090/profile")));
  const auto cost = Create(ProfileOptions(), std::move(tables));
  // One sequence at 2,048, off the tables: layernorm twice.
  const double layer = 2 * 1.85083 + 54.898 + 2.17567 + 38.1313 + 247.292 +
                       2.592 + 126.766 + 20.1687;
  const double once = 2.837 + 1.94167 + 1096.93 + 25.001;
  EXPECT_NEAR(cost->IterationTime(Shape({}, {2048})).micros(),
              32 * layer + once, 0.001);
  // A mixed batch costs what was measured mixed, far above the sum of parts.
  ProfileOptions additive;
  additive.set_mixed_rule(ProfileOptions::ADDITIVE);
  ASSERT_OK_AND_ASSIGN(tables, ReadProfileTables(absl::StrCat(
                                   data, "/vllm_replay/RTX4090/profile")));
  const auto sum = Create(additive, std::move(tables));
  const std::vector<PrefillChunk> chunks = {{512, 0}};
  const BatchShape mixed = Shape(chunks, std::vector<int64_t>(32, 1024));
  EXPECT_GT(
      cost->IterationTime(mixed).micros() - sum->IterationTime(mixed).micros(),
      32 * 100.0);
  EXPECT_EQ(cost->stats().outside_grid, 0);
}

}  // namespace
}  // namespace interleave::sim
