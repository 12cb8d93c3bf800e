#include "sim/profiling/pieces.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/profiling/measured_batch.h"

namespace interleave::sim {
namespace {

using ::testing::ElementsAre;

constexpr PieceOptions kOptions = {.num_layers = 32, .memory_tokens = 128};

std::vector<std::string> Keys(const std::vector<MeasuredBatch>& batches) {
  std::vector<std::string> keys;
  for (const MeasuredBatch& batch : batches) keys.push_back(KeyOf(batch));
  return keys;
}

TEST(PiecesTest, OfLinearLayers) {
  EXPECT_THAT(Keys(LinearPieces(128, kOptions)), ElementsAre("128@0|-|linear"));
  EXPECT_THAT(Keys(LinearPieces(129, kOptions)),
              ElementsAre("129@0|-|linear of 4", "129@0|-|linear of 1"));
  EXPECT_THAT(Keys(LinearPieces(4096, kOptions)),
              ElementsAre("4096@0|-|linear of 2", "4096@0|-|linear of 1"));
  // A model of so few layers is measured whole.
  EXPECT_THAT(Keys(LinearPieces(4096, {.num_layers = 4, .memory_tokens = 128})),
              ElementsAre("4096@0|-|linear"));
}

TEST(PiecesTest, OfAttention) {
  // Decodes alone, and few tokens, throttle nothing.
  EXPECT_THAT(Keys(AttentionPieces(Decodes(256, 4096), kOptions)),
              ElementsAre("-|256x4096|all"));
  EXPECT_THAT(Keys(AttentionPieces(Mixed({64, 0}, 64, 16), kOptions)),
              ElementsAre("64@0|64x16|all"));
  // 8 + 2 us a layer.
  EXPECT_THAT(Keys(AttentionPieces(Mixed({256, 0}, 0, 0), kOptions)),
              ElementsAre("256@0|-|attention of 16", "256@0|-|attention of 1"));
  // 8 + 524 us: 5.6 of them.
  EXPECT_THAT(Keys(AttentionPieces(Mixed({256, 0}, 64, 8192), kOptions)),
              ElementsAre("256@0|64x8192|attention of 5",
                          "256@0|64x8192|attention of 1"));
  // 8 + 4,027 us.
  EXPECT_THAT(
      Keys(AttentionPieces(Mixed({8192, 8192}, 0, 0), kOptions)),
      ElementsAre("8192@8192|-|attention of 2", "8192@8192|-|attention of 1"));
}

TEST(LayerFitTest, OneBatchByItself) {
  LayerFit fit(32);
  // 300 outside, 20 a layer.
  EXPECT_DOUBLE_EQ(fit.Add(512, {4, 380, 320}), 300 + 32 * 20);
  EXPECT_THAT(fit.All(), ElementsAre(std::pair(512, 940)));
}

TEST(LayerFitTest, ManyBatchesTellWhatIsOutside) {
  LayerFit fit(32);
  // 300 + tokens / 100 outside, tokens / 10 a layer.
  for (const double tokens : {200, 400, 600, 800, 1000}) {
    const double outside = 300 + tokens / 100;
    fit.Add(tokens, {4, outside + tokens * 0.4, outside + tokens * 0.1});
  }
  // One piece was misread by 5 us: by itself the batch has layers of 61.67 us.
  EXPECT_NEAR(fit.Add(600, {4, 306 + 240, 306 + 60 - 5}), 299.33 + 32 * 61.67,
              0.2);
  fit.FitOutside();
  for (const auto& [tokens, us] : fit.All()) {
    const double right = 300 + tokens / 100 + 32 * tokens / 10;
    // Both pieces are five layers, which are 5 us short.
    EXPECT_NEAR(us, tokens == 600 ? right - 32 : right, 1e-6) << tokens;
  }
}

TEST(LayerFitTest, OneBatchTellsNothingOfOthers) {
  LayerFit fit(8);
  fit.FitOutside();
  EXPECT_TRUE(fit.All().empty());
  fit.Add(256, {2, 120, 110});
  fit.FitOutside();
  EXPECT_THAT(fit.All(), ElementsAre(std::pair(256, 100 + 8 * 10)));
}

}  // namespace
}  // namespace interleave::sim
