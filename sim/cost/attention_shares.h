// AttentionShares: how much of a mixed batch's attention is that of its prompt
// chunks, which multiply matrices, and how much that of its decodes, which read
// the KV cache: an estimate from what each costs alone at the largest size.

#ifndef SIM_COST_ATTENTION_SHARES_H_
#define SIM_COST_ATTENTION_SHARES_H_

#include "sim/cost/batch_shape.h"
#include "sim/cost/grid.h"

namespace interleave::sim {

class AttentionShares {
 public:
  // Of a table's grids, by (chunk, context) and (sequences, cached tokens).
  AttentionShares(const Grid& prefill, const Grid& decode);

  // Of the chunks, in [0, 1]; 1 without decodes.
  double OfChunks(const BatchShape& shape) const;

 private:
  // Microseconds of a pair of query and key, and of a cached token.
  double us_per_pair_ = 0;
  double us_per_cached_ = 0;
};

}  // namespace interleave::sim

#endif  // SIM_COST_ATTENTION_SHARES_H_
