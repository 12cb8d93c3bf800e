#include "sim/profiling/pieces.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/statistics.h"
#include "sim/cost/batch_shape.h"
#include "sim/profiling/measured_batch.h"

namespace interleave::sim {
namespace {

// Linear layers of one piece: enough to tell a layer by, fewer of batches of
// more tokens.
constexpr int32_t kFewLayers = 4;
constexpr int32_t kFewestLayers = 2;
constexpr double kFewLayersTokens = 2048;
// Of attention, what takes some 3 ms.
constexpr int32_t kMostAttentionLayers = 16;
constexpr double kAttentionUs = 3000;

// Roughly what a layer's attention takes on a card of the day: only to measure
// as many as take long enough, and not longer.
double RoughAttentionUs(const MeasuredBatch& batch) {
  constexpr double kLaunchUs = 8;
  constexpr double kUsPerPair = 4e-5;
  constexpr double kUsPerKv = 1e-3;
  const BatchShape shape = batch.shape();
  double us =
      kLaunchUs + kUsPerKv * static_cast<double>(shape.decode.kv_tokens);
  for (const PrefillChunk& chunk : batch.chunks) {
    us += kUsPerPair * QueryKeyPairs(chunk.query_tokens, chunk.context_tokens);
  }
  return us;
}

// So many layers of it, and one.
std::vector<MeasuredBatch> FewAndOne(MeasuredBatch batch, int32_t layers) {
  batch.layers = layers;
  std::vector<MeasuredBatch> batches = {batch, batch};
  batches[1].layers = 1;
  return batches;
}

// What is outside of layers, by what a few take alone.
double OutsideOf(const FewLayers& few) {
  return few.one_us - (few.us - few.one_us) / (few.layers - 1);
}

}  // namespace

bool Throttles(const MeasuredBatch& batch, const PieceOptions& options) {
  return options.num_layers > kFewLayers &&
         static_cast<double>(batch.shape().tokens_beside_prefill()) >
             options.memory_tokens;
}

std::vector<MeasuredBatch> LinearPieces(double tokens,
                                        const PieceOptions& options) {
  MeasuredBatch batch = Mixed({Whole(tokens), 0}, 0, 0);
  batch.part = BatchPart::kWithoutAttention;
  if (!Throttles(batch, options)) return {batch};
  return FewAndOne(std::move(batch),
                   tokens <= kFewLayersTokens ? kFewLayers : kFewestLayers);
}

std::vector<MeasuredBatch> AttentionPieces(MeasuredBatch batch,
                                           const PieceOptions& options) {
  if (!Throttles(batch, options)) return {std::move(batch)};
  const auto layers = static_cast<int32_t>(std::clamp(
      kAttentionUs / RoughAttentionUs(batch), 2.0,
      static_cast<double>(std::min(kMostAttentionLayers, options.num_layers))));
  batch.part = BatchPart::kAttention;
  return FewAndOne(std::move(batch), layers);
}

double LayerFit::Add(double tokens, const FewLayers& few) {
  few_[tokens] = few;
  return AllLayers(tokens, few);
}

// Of two unknowns, a layer and what is outside, or of the layer alone by least
// squares of sorts: what both took, less what is outside twice.
double LayerFit::AllLayers(double tokens, const FewLayers& few) const {
  const double outside =
      outside_.has_value()
          ? outside_->constant_us + tokens * outside_->per_token_us
          : OutsideOf(few);
  const double layer =
      std::max(0.0, few.one_us + few.us - 2 * outside) / (few.layers + 1);
  return outside + num_layers_ * layer;
}

void LayerFit::FitOutside() {
  std::vector<std::pair<double, double>> points;
  for (const auto& [tokens, few] : few_) {
    points.push_back({tokens, OutsideOf(few)});
  }
  std::vector<double> slopes;
  for (size_t i = 0; i < points.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      slopes.push_back((points[i].second - points[j].second) /
                       (points[i].first - points[j].first));
    }
  }
  if (slopes.empty()) return;
  Outside outside;
  outside.per_token_us = std::max(0.0, Median(std::move(slopes)));
  std::vector<double> constants;
  for (const auto& [tokens, us] : points) {
    constants.push_back(us - tokens * outside.per_token_us);
  }
  outside.constant_us = Median(std::move(constants));
  outside_ = outside;
}

std::map<double, double> LayerFit::All() const {
  std::map<double, double> all;
  for (const auto& [tokens, few] : few_) all[tokens] = AllLayers(tokens, few);
  return all;
}

}  // namespace interleave::sim
