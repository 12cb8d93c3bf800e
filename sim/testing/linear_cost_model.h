// LinearCostModel: durations that a test can work out by hand, on a card that
// may be throttled.

#ifndef SIM_TESTING_LINEAR_COST_MODEL_H_
#define SIM_TESTING_LINEAR_COST_MODEL_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "base/sim_time.h"
#include "sim/cost/batch_shape.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/throttle.h"

namespace interleave::sim {

class LinearCostModel final : public CostModel {
 public:
  // Nanoseconds of an iteration, and of each prompt token, decode and cached
  // token read by a decode in it.
  struct Coefficients {
    int64_t iteration = 0;
    int64_t prefill_token = 0;
    int64_t decode = 0;
    int64_t kv_token = 0;
  };

  explicit LinearCostModel(const Coefficients& ns,
                           const ThrottleTable& throttle = {})
      : ns_(ns), throttle_(throttle) {}

  SimDuration IterationTime(const BatchShape& shape) override {
    return TimeIn(state_, shape);
  }
  void DecodeTimes(const DecodeGroup& first,
                   absl::Span<SimDuration> out) override {
    double state = state_;
    BatchShape shape;
    shape.decode = first;
    for (SimDuration& duration : out) {
      duration = TimeIn(state, shape);
      state = throttle_.After(0, duration, state);
      shape.decode.Advance();
    }
  }
  void Ran(int64_t tokens_beside_prefill,
           absl::Span<const SimDuration> device) override {
    for (const SimDuration time : device) {
      state_ = throttle_.After(tokens_beside_prefill, time, state_);
    }
  }
  void Idle(SimDuration time) override {
    state_ = throttle_.AfterIdle(time, state_);
  }
  std::string Description() const override { return "linear"; }

 private:
  SimDuration TimeIn(double state, const BatchShape& shape) const {
    const int64_t ns =
        ns_.iteration + ns_.prefill_token * shape.prefill_tokens +
        ns_.decode * shape.decode.count + ns_.kv_token * shape.decode.kv_tokens;
    const int64_t tokens = shape.tokens_beside_prefill();
    const double mean =
        throttle_.MeanState(tokens, static_cast<double>(ns) / 1e3, state);
    return SimDuration::Nanos(static_cast<int64_t>(
        static_cast<double>(ns) * (1 + mean * throttle_.Slowdown(tokens))));
  }

  const Coefficients ns_;
  const Throttle throttle_;
  double state_ = 0;
};

}  // namespace interleave::sim

#endif  // SIM_TESTING_LINEAR_COST_MODEL_H_
