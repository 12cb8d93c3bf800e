#include "sim/cost/attention_shares.h"

#include "sim/cost/batch_shape.h"
#include "sim/cost/grid.h"

namespace interleave::sim {

AttentionShares::AttentionShares(const Grid& prefill, const Grid& decode) {
  bool outside = false;
  const double chunk = prefill.axis(0).back();
  const double context = prefill.axis(1).back();
  us_per_pair_ =
      prefill.At({chunk, context}, &outside) / QueryKeyPairs(chunk, context);
  const double sequences = decode.axis(0).back();
  const double cached = decode.axis(1).back();
  if (cached <= 0) return;
  us_per_cached_ =
      decode.At({sequences, cached}, &outside) / (sequences * cached);
}

double AttentionShares::OfChunks(const BatchShape& shape) const {
  if (shape.decode.kv_tokens == 0) return 1;
  double pairs = 0;
  for (const PrefillChunk& chunk : shape.prefill) {
    pairs += QueryKeyPairs(chunk.query_tokens, chunk.context_tokens);
  }
  const double chunks = pairs * us_per_pair_;
  const double decodes =
      static_cast<double>(shape.decode.kv_tokens) * us_per_cached_;
  return chunks + decodes > 0 ? chunks / (chunks + decodes) : 1;
}

}  // namespace interleave::sim
