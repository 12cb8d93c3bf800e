#include "sim/cost/attention_shares.h"

#include <vector>

#include "gtest/gtest.h"
#include "sim/cost/batch_shape.h"
#include "sim/cost/grid.h"

namespace interleave::sim {
namespace {

// 1 us for 1,000 pairs at (1,000 after 1,500): 2,000 us; 1 us for 100 cached
// tokens at 10 sequences of 1,000: 100 us.
AttentionShares Shares() {
  return AttentionShares(
      Grid({{{10, 0}, 5},
            {{1000, 0}, 600},
            {{10, 1500}, 30},
            {{1000, 1500}, 2000}}),
      Grid({{{1, 16}, 4}, {{10, 16}, 5}, {{1, 1000}, 12}, {{10, 1000}, 100}}));
}

TEST(AttentionSharesTest, ByHand) {
  const AttentionShares shares = Shares();
  const std::vector<PrefillChunk> chunks = {{100, 0}, {50, 400}};
  BatchShape shape;
  shape.prefill = chunks;
  shape.prefill_tokens = 150;
  EXPECT_EQ(shares.OfChunks(shape), 1);
  // 100 x 50 + 50 x 425 = 26,250 pairs, 26.25 us; 7,875 cached tokens, 78.75.
  shape.decode.Add(7'000);
  shape.decode.Add(875);
  EXPECT_DOUBLE_EQ(shares.OfChunks(shape), 0.25);
  shape.prefill = {};
  EXPECT_EQ(shares.OfChunks(shape), 0);
}

}  // namespace
}  // namespace interleave::sim
