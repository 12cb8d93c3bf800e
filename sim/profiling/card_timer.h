// CardTimer: times batches on a card that slows down under load, and knows
// where it is.

#ifndef SIM_PROFILING_CARD_TIMER_H_
#define SIM_PROFILING_CARD_TIMER_H_

#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sim/cost/throttle.h"
#include "sim/profiling/batch_timer.h"
#include "sim/profiling/measured_batch.h"

namespace interleave::sim {

class CardTimer {
 public:
  // A card that is throttled less than this counts as recovered.
  static constexpr double kRecovered = 0.15;

  // `timer` must outlive this. `decodes`: a batch during which the card
  // recovers. `ran` is told of each batch that has run; Cancelled where it
  // answers false.
  CardTimer(MeasuredBatch decodes, BatchTimer* timer, std::function<bool()> ran)
      : decodes_(std::move(decodes)), timer_(timer), ran_(std::move(ran)) {}

  absl::StatusOr<BatchTime> Time(const MeasuredBatch& batch);

  // Computes decodes until the card has recovered.
  absl::Status Recover();

  const MeasuredBatch& decodes() const { return decodes_; }

  // From now on the card is known to follow this; it counts as recovered.
  void set_throttle(const ThrottleTable& table) { throttle_ = Throttle(table); }
  const Throttle& throttle() const { return throttle_; }
  // Where the card is by it.
  double state() const { return state_; }

 private:
  const MeasuredBatch decodes_;
  BatchTimer* const timer_;
  const std::function<bool()> ran_;
  Throttle throttle_;
  double state_ = 0;
};

}  // namespace interleave::sim

#endif  // SIM_PROFILING_CARD_TIMER_H_
