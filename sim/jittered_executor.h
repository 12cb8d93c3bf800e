// JitteredExecutor: what another executor says, a little longer or shorter each
// time.
//
// A simulation repeats exactly; a server does not. Where requests wait for each
// other, an iteration that ends a microsecond later can move one of them to the
// next, and its latencies by percents. Simulations that differ in their jitter
// alone tell what of a difference between two policies is that.

#ifndef SIM_JITTERED_EXECUTOR_H_
#define SIM_JITTERED_EXECUTOR_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "base/random.h"
#include "base/sim_time.h"
#include "base/status_macros.h"
#include "sim/executor.h"
#include "sim/forwarding_executor.h"

namespace interleave::sim {

class JitteredExecutor final : public ForwardingExecutor {
 public:
  // Device times are multiplied by factors that are independent of each other,
  // normally distributed about 1 with this standard deviation.  Predictions
  // stay what they are.
  // REQUIRES: 0 <= deviation <= kMostJitter.
  JitteredExecutor(std::unique_ptr<Executor> executor, double deviation,
                   uint64_t seed)
      : ForwardingExecutor(std::move(executor)),
        deviation_(deviation),
        rng_(Rng(seed).Fork("device_time_jitter")) {}

  // Five standard deviations leave some time.
  static constexpr double kMostJitter = 0.15;

  absl::Status Run(const Batch& batch, IterationTiming& timing) override {
    RETURN_IF_ERROR(ForwardingExecutor::Run(batch, timing));
    const double factor =
        1 + deviation_ * std::clamp(rng_.StandardNormal(), -5.0, 5.0);
    timing.device = SimDuration::Micros(factor * timing.device.micros());
    timing.decodes_alone =
        SimDuration::Micros(factor * timing.decodes_alone.micros());
    return absl::OkStatus();
  }

 private:
  const double deviation_;
  Rng rng_;
};

}  // namespace interleave::sim

#endif  // SIM_JITTERED_EXECUTOR_H_
