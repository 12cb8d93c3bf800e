// Executor: runs a batch, or says how long running it takes.

#ifndef SIM_EXECUTOR_H_
#define SIM_EXECUTOR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/sim_time.h"
#include "scheduler/engine_state.h"
#include "sim/cost/batch_shape.h"

namespace interleave::sim {

// Everything an executor may want to know of one iteration.
struct Batch {
  BatchShape shape;
  // Time since the end of the iteration before.
  SimDuration idle;
  // The pieces, and the requests with their block tables behind them; a cost
  // model reads the shape alone.
  const scheduler::CommittedBatch& committed;
  const scheduler::EngineState& state;
};

struct IterationTiming {
  // Time on the device, and the host's share that does not overlap it.
  SimDuration device;
  SimDuration host;
  // Device time that a cost model predicts; equals `device` if it predicted.
  SimDuration predicted;
  // Device time that the decodes of the batch would take without its prompt
  // chunks; equals `device` when there are none.
  SimDuration decodes_alone;
};

class Executor {
 public:
  virtual ~Executor() = default;

  // Runs an iteration of at least one token and fills `timing`, which is all
  // zero before.  (An out-parameter, since copies of small structs are a good
  // part of a simulated iteration.)
  virtual absl::Status Run(const Batch& batch, IterationTiming& timing) = 0;

  // Whether Foresee can tell; false where only running can.
  virtual bool CanForesee() const { return false; }
  // Device times of out.size() consecutive iterations of `first` alone that
  // begin now, as Run would give them.
  // REQUIRES: CanForesee().
  virtual void Foresee(const DecodeGroup& first, absl::Span<SimDuration> out) {}
  // Tells that iterations of so many sequences were carried out as foreseen, in
  // these times.
  virtual void OnForeseen(int64_t sequences,
                          absl::Span<const SimDuration> device) {}

  // The host's share of an iteration with so many sequences.
  virtual SimDuration HostTime(int64_t num_sequences) const = 0;

  // Predicted device time of a batch, without running it; zero when nobody
  // can tell.
  virtual SimDuration Predict(const BatchShape& shape) = 0;

  // Whether BatchShape::decode.kv_tokens_max is read.
  virtual bool NeedsKvTokensMax() const { return false; }

  // A request is gone: drop what is kept for it.
  virtual void OnRequestDone(const scheduler::Request& request) {}
};

}  // namespace interleave::sim

#endif  // SIM_EXECUTOR_H_
