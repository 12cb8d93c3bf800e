// LinearCostModel: durations that a test can work out by hand, on a card that
// may be throttled.

#ifndef SIM_TESTING_LINEAR_COST_MODEL_H_
#define SIM_TESTING_LINEAR_COST_MODEL_H_

#include <cstdint>
#include <string>

#include "base/sim_time.h"
#include "sim/cost/batch_shape.h"
#include "sim/cost/throttle.h"
#include "sim/cost/throttled_model.h"

namespace interleave::sim {

class LinearCostModel final : public ThrottledModel {
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
      : ThrottledModel(throttle), ns_(ns) {}

  std::string Description() const override { return "linear"; }

 private:
  SimDuration TimeIn(double state, const BatchShape& shape) override {
    const int64_t ns =
        ns_.iteration + ns_.prefill_token * shape.prefill_tokens +
        ns_.decode * shape.decode.count + ns_.kv_token * shape.decode.kv_tokens;
    const int64_t tokens = throttle().TokensOf(shape);
    const double mean =
        throttle().MeanState(tokens, static_cast<double>(ns) / 1e3, state);
    return SimDuration::Nanos(static_cast<int64_t>(
        static_cast<double>(ns) * (1 + mean * throttle().Slowdown(tokens))));
  }

  const Coefficients ns_;
};

}  // namespace interleave::sim

#endif  // SIM_TESTING_LINEAR_COST_MODEL_H_
