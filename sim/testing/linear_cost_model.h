// LinearCostModel: durations that a test can work out by hand.

#ifndef SIM_TESTING_LINEAR_COST_MODEL_H_
#define SIM_TESTING_LINEAR_COST_MODEL_H_

#include <cstdint>
#include <string>

#include "base/sim_time.h"
#include "sim/cost/batch_shape.h"
#include "sim/cost/cost_model.h"

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

  explicit LinearCostModel(const Coefficients& ns) : ns_(ns) {}

  SimDuration IterationTime(const BatchShape& shape) override {
    return SimDuration::Nanos(ns_.iteration +
                              ns_.prefill_token * shape.prefill_tokens +
                              ns_.decode * shape.decode.count +
                              ns_.kv_token * shape.decode.kv_tokens);
  }
  std::string Description() const override { return "linear"; }

 private:
  const Coefficients ns_;
};

}  // namespace interleave::sim

#endif  // SIM_TESTING_LINEAR_COST_MODEL_H_
