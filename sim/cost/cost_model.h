// CostModel: predicts how long the device takes for one iteration.

#ifndef SIM_COST_COST_MODEL_H_
#define SIM_COST_COST_MODEL_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "base/sim_time.h"
#include "sim/cost/batch_shape.h"

namespace interleave::sim {

// How far the queries of a run were inside what the model knows.
struct CostModelStats {
  int64_t queries = 0;
  // Queries outside the measured grid (answered by the model's documented
  // extension of its edge); 0 for an analytic model.
  int64_t outside_grid = 0;
};

// A cost model is deterministic and single-threaded: one object a replica.
class CostModel {
 public:
  virtual ~CostModel() = default;

  // Device time of an iteration of this shape that begins now, without the
  // host's share.
  // REQUIRES: at least one token.
  virtual SimDuration IterationTime(const BatchShape& shape) = 0;

  // Times of out.size() consecutive iterations in which the sequences of
  // `first`, and nothing else, decode one token each.  Equal, to the last bit,
  // to calling IterationTime and Ran once an iteration, but leaves no trace;
  // overridden for speed.
  virtual void DecodeTimes(const DecodeGroup& first,
                           absl::Span<SimDuration> out) {
    BatchShape shape;
    shape.decode = first;
    for (SimDuration& duration : out) {
      duration = IterationTime(shape);
      shape.decode.Advance();
    }
  }

  // Tells of iterations that have run, one after the other, of `shape` but for
  // the lengths of KV, and what each took on the device.  A model whose times
  // depend on what ran before (see throttle.h) remembers it; others do nothing.
  virtual void Ran(const BatchShape& shape,
                   absl::Span<const SimDuration> device) {}
  // The device has had nothing to do for so long.
  virtual void Idle(SimDuration time) {}

  // Whether IterationTime reads kv_tokens_max, which costs the engine some
  // work to keep; where false, that field is 0.
  virtual bool NeedsKvTokensMax() const { return false; }

  virtual CostModelStats stats() const { return {}; }

  // One line for a person: what the model is made of.
  virtual std::string Description() const = 0;
};

}  // namespace interleave::sim

#endif  // SIM_COST_COST_MODEL_H_
