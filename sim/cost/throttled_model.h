// ThrottledModel: a cost model of a card that slows down under load.

#ifndef SIM_COST_THROTTLED_MODEL_H_
#define SIM_COST_THROTTLED_MODEL_H_

#include <cstdint>

#include "absl/types/span.h"
#include "base/sim_time.h"
#include "sim/cost/batch_shape.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/throttle.h"

namespace interleave::sim {

// Keeps the state that follows what has run; a model says what a batch takes in
// a state.
class ThrottledModel : public CostModel {
 public:
  explicit ThrottledModel(const ThrottleTable& table) : throttle_(table) {}

  SimDuration IterationTime(const BatchShape& shape) final {
    return TimeIn(state_, shape);
  }

  void DecodeTimes(const DecodeGroup& first,
                   absl::Span<SimDuration> out) override {
    double state = state_;
    BatchShape shape;
    shape.decode = first;
    const int64_t tokens = throttle_.OfDecodes(first.count);
    for (SimDuration& duration : out) {
      duration = TimeIn(state, shape);
      state = throttle_.After(tokens, duration, state);
      shape.decode.Advance();
    }
  }

  void Ran(const BatchShape& shape,
           absl::Span<const SimDuration> device) final {
    const int64_t tokens = throttle_.TokensOf(shape);
    for (const SimDuration time : device) {
      state_ = throttle_.After(tokens, time, state_);
    }
  }
  void Idle(SimDuration time) final {
    state_ = throttle_.AfterIdle(time, state_);
  }

 protected:
  // Device time of a batch that begins in a state; see IterationTime.
  virtual SimDuration TimeIn(double state, const BatchShape& shape) = 0;

  const Throttle& throttle() const { return throttle_; }
  double state() const { return state_; }

 private:
  const Throttle throttle_;
  double state_ = 0;
};

}  // namespace interleave::sim

#endif  // SIM_COST_THROTTLED_MODEL_H_
