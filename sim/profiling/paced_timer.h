// PacedTimer: times batches on a card that has been brought into a known state
// before: throttled by a row of prompts, recovered by decodes, or anywhere in
// between, as a server has it.

#ifndef SIM_PROFILING_PACED_TIMER_H_
#define SIM_PROFILING_PACED_TIMER_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/random.h"
#include "sim/cost/throttle.h"
#include "sim/profiling/batch_timer.h"
#include "sim/profiling/measured_batch.h"

namespace interleave::sim {

// Whether matrix products take all the power there is for most of a batch.
bool IsLarge(const MeasuredBatch& batch);

class PacedTimer {
 public:
  struct Options {
    // Sizes of the batches that bring the card into a state: of a prompt, and
    // of decodes.
    int32_t prompt_tokens = 1024;
    int32_t decodes = 32;
    int32_t decode_kv = 1024;
    // Share of the time in which Pace has prompts computed; 0: it does nothing.
    double compute_share = 0.25;
    uint64_t seed = 1;
  };

  // `timer` must outlive this. `ran` is told of each batch that has run;
  // Cancelled where it answers false.
  PacedTimer(const Options& options, BatchTimer* timer,
             std::function<bool()> ran)
      : options_(options),
        timer_(timer),
        ran_(std::move(ran)),
        phase_(Rng(options.seed).Fork("phase")) {}

  absl::StatusOr<BatchTime> Time(const MeasuredBatch& batch);

  // Computes prompts in a row until the card is throttled, unless it has just
  // computed some.
  absl::Status Heat();
  // Computes decodes until it has recovered.
  absl::Status Recover();
  // Brings the share of prompts back to where it should be, to a moment between
  // two of them.
  absl::Status Pace();

  MeasuredBatch prompt() const;
  MeasuredBatch decodes() const;

  // From now on the card is known to follow this; it counts as recovered.
  void set_throttle(const ThrottleTable& table) { throttle_ = Throttle(table); }
  const Throttle& throttle() const { return throttle_; }
  // Where the card is by it.
  double state() const { return state_; }

 private:
  const Options options_;
  BatchTimer* const timer_;
  const std::function<bool()> ran_;
  Rng phase_;
  Throttle throttle_;
  double state_ = 0;
  // Microseconds of large batches beyond their share so far.
  double balance_us_ = 0;
  // Microseconds of large batches since the last small one.
  double row_us_ = 0;
};

}  // namespace interleave::sim

#endif  // SIM_PROFILING_PACED_TIMER_H_
