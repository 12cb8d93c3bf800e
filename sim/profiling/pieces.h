// Pieces: a batch that would throttle the card is measured by a few of its
// layers, linear ones and attention apart, which are over before it is.

#ifndef SIM_PROFILING_PIECES_H_
#define SIM_PROFILING_PIECES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "sim/profiling/measured_batch.h"

namespace interleave::sim {

struct PieceOptions {
  // Of the model.
  int32_t num_layers = 0;
  // Batches with prompts of more tokens throttle the card.
  double memory_tokens = 128;
};

// Whether a batch is measured by pieces.
bool Throttles(const MeasuredBatch& batch, const PieceOptions& options);

// A prompt of so many tokens without attention: its first few layers and its
// first one, or the whole batch alone if it does not throttle.
std::vector<MeasuredBatch> LinearPieces(double tokens,
                                        const PieceOptions& options);

// Attention of a batch alone: of a few layers, and of one; or the whole batch,
// with all else, if it does not throttle.
std::vector<MeasuredBatch> AttentionPieces(MeasuredBatch batch,
                                           const PieceOptions& options);

// Microseconds of the first so many layers (two or more), and of the first
// alone, each with what is outside of layers.
struct FewLayers {
  double layers = 0;
  double us = 0;
  double one_us = 0;
};

// What all layers take, by what a few take.
class LayerFit {
 public:
  explicit LayerFit(int32_t num_layers) : num_layers_(num_layers) {}

  // Keeps what so many tokens take; returns microseconds of all layers, and of
  // what is outside of them.
  double Add(double tokens, const FewLayers& few);

  // What is outside of layers is the same for all but for what grows with
  // tokens, so that it is known better than any one batch tells it: from now on
  // it is the median line through all pairs (Theil, 1950; Sen, 1968).
  void FitOutside();

  // As Add, of all that were kept, by tokens.
  std::map<double, double> All() const;

 private:
  // What is outside of layers.
  struct Outside {
    double constant_us;
    double per_token_us;
  };

  double AllLayers(double tokens, const FewLayers& few) const;

  const int32_t num_layers_;
  std::map<double, FewLayers> few_;  // by tokens
  std::optional<Outside> outside_;
};

}  // namespace interleave::sim

#endif  // SIM_PROFILING_PIECES_H_
