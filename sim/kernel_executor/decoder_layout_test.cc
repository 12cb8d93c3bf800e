#include "sim/kernel_executor/decoder_layout.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/arena.h"
#include "gtest/gtest.h"
#include "sim/kernel_executor/decoder_options.h"

namespace interleave::sim {
namespace {

constexpr int kHopper = 9;
constexpr int kMultiprocessors = 132;
constexpr int64_t kPlanBytes = 1000;

DecoderOptions Options() {
  DecoderOptions options;
  options.shape = {2, 256, 4, 2, 64, 512, 1024, false};
  options.max_num_seqs = 8;
  options.max_num_batched_tokens = 128;
  options.max_model_len = 250;
  return options;
}

TEST(DecoderSizesTest, ByHand) {
  const DecoderSizes sizes(Options());
  EXPECT_EQ(sizes.q, 256);
  EXPECT_EQ(sizes.kv, 128);
  EXPECT_EQ(sizes.qkv(), 512);
  // 250 tokens are 16 blocks of 16.
  EXPECT_EQ(sizes.table, 16);
  EXPECT_EQ(sizes.positions, 256);
  EXPECT_EQ(LinearShapes(sizes)[kGateUp].outputs, 1024);
  EXPECT_EQ(LinearShapes(sizes)[kDown].inputs, 512);
  // 2 layers x K and V x 16 tokens x 2 heads x 64 x 2 bytes.
  EXPECT_EQ(KvBlockBytes(Options()), 16384);
}

TEST(CarveWeightsTest, ByHand) {
  DecoderOptions options = Options();
  Arena arena(nullptr);
  (void)CarveWeights(options, arena);
  // A layer: 256 x (512 + 256 + 1,024 + 512) and two norms of 256 numbers.
  // Outside: two tables of 1,024 x 256 and a norm.
  EXPECT_EQ(arena.size(), 2 * (2 * (256 * 2304 + 512) + 2 * 1024 * 256 + 256));
  options.shape.tied_embeddings = true;
  char base = 0;
  Arena tied(&base);
  const WeightPointers weights = CarveWeights(options, tied);
  EXPECT_EQ(weights.lm_head, weights.embedding);
  EXPECT_EQ(arena.size() - tied.size(), 2 * 1024 * 256);
}

// By the addresses' order, which are in no memory.
TEST(CarveBuffersTest, NothingOverlaps) {
  const DecoderOptions options = Options();
  const DecoderSizes sizes(options);
  const StreamSplits streams = SplitStreams(options, kHopper, kMultiprocessors);
  ASSERT_TRUE(streams.has_value());
  char base = 0;
  Arena arena(&base);
  const DecoderBuffers b = CarveBuffers(options, kPlanBytes, streams, arena);
  const std::vector<std::pair<const void*, int64_t>> pieces = {
      {b.residual, sizes.tokens * sizes.hidden * 2},
      {b.normed, sizes.tokens * sizes.hidden * 2},
      {b.qkv, sizes.tokens * sizes.qkv() * 2},
      {b.attention, sizes.tokens * sizes.q * 2},
      {b.delta, sizes.tokens * sizes.hidden * 2},
      {b.gate_up, sizes.tokens * sizes.intermediate * 4},
      {b.activated, sizes.tokens * sizes.intermediate * 2},
      {b.last, sizes.seqs * sizes.hidden * 2},
      {b.logits, sizes.seqs * sizes.vocab * 4},
      {b.partials, 1},
      {b.cos_sin, sizes.positions * 32 * 8},
      {b.packed, MostPacked(sizes) * 4},
      {b.block_table, sizes.seqs * sizes.table * 4},
      {b.positions, sizes.tokens * 4},
      {b.slots, sizes.tokens * 4},
      {b.workspace, kWorkspaceBytes},
      {b.plan, kPlanBytes},
      {b.stream_partials, StreamPartials((*streams)[kQkv]) * 4},
      {b.stream_partials, StreamPartials((*streams)[kDown]) * 4},
      {b.gate_up_scratch.sums, GateUpSums((*streams)[kGateUp]) * 4},
      {b.gate_up_scratch.ready, GateUpReady((*streams)[kGateUp]) * 4}};
  for (const auto& [begin, size] : pieces) {
    const char* const first = static_cast<const char*>(begin);
    EXPECT_LE(first + size - &base, arena.size());
    for (const auto& [other, other_size] : pieces) {
      if (other <= begin) continue;
      EXPECT_LE(first + size, static_cast<const char*>(other));
    }
  }
}

TEST(SplitStreamsTest, OnHoppersAndWhereTilesFit) {
  DecoderOptions options = Options();
  EXPECT_TRUE(SplitStreams(options, kHopper, 132).has_value());
  EXPECT_FALSE(SplitStreams(options, 8, 108).has_value());
  options.batch_invariant = true;
  EXPECT_FALSE(SplitStreams(options, kHopper, 132).has_value());
  options = Options();
  options.stream_weights = false;
  EXPECT_FALSE(SplitStreams(options, kHopper, 132).has_value());
  options = Options();
  options.shape.intermediate_size = 32;  // half a column unit of the down layer
  EXPECT_FALSE(SplitStreams(options, kHopper, 132).has_value());
  // Nothing is set aside for streams then.
  Arena with(nullptr);
  Arena without(nullptr);
  (void)CarveBuffers(Options(), kPlanBytes,
                     SplitStreams(Options(), kHopper, 132), with);
  (void)CarveBuffers(Options(), kPlanBytes, StreamSplits(), without);
  EXPECT_GT(with.size(), without.size());
}

}  // namespace
}  // namespace interleave::sim
