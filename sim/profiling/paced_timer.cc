#include "sim/profiling/paced_timer.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "sim/cost/batch_shape.h"
#include "sim/profiling/batch_timer.h"
#include "sim/profiling/measured_batch.h"

namespace interleave::sim {
namespace {

// A batch is small up to so many tokens, and large from so many on.
constexpr double kSmallTokens = 128;
constexpr double kLargeTokens = 512;
// Microseconds of large batches after which the clock has settled.
constexpr double kRow = 100'000;
// A card in this state counts as recovered.
constexpr double kRecovered = 0.1;
// How far, in microseconds of large batches, their share may stray.
constexpr double kStray = 10'000;

// How much of a batch's time is that of large ones, in [0, 1].
double LargeShare(const MeasuredBatch& batch) {
  const auto tokens = static_cast<double>(batch.num_tokens());
  return std::clamp((tokens - kSmallTokens) / (kLargeTokens - kSmallTokens),
                    0.0, 1.0);
}

}  // namespace

bool IsLarge(const MeasuredBatch& batch) { return LargeShare(batch) > 0.5; }

MeasuredBatch PacedTimer::prompt() const {
  return Mixed({options_.prompt_tokens, 0}, 0, 0);
}

MeasuredBatch PacedTimer::decodes() const {
  return Decodes(options_.decodes, options_.decode_kv);
}

absl::StatusOr<BatchTime> PacedTimer::Time(const MeasuredBatch& batch) {
  ASSIGN_OR_RETURN(const BatchTime time, timer_->Time(batch));
  state_ = throttle_.After(batch.shape().tokens_beside_prefill(), time.device,
                           state_);
  const double us = time.device.micros();
  balance_us_ += us * (LargeShare(batch) - options_.compute_share);
  row_us_ = IsLarge(batch) ? row_us_ + us : 0;
  if (ran_ && !ran_()) return absl::CancelledError("stopped");
  return time;
}

absl::Status PacedTimer::Heat() {
  if (!IsLarge(prompt())) return absl::OkStatus();
  while (row_us_ < kRow) RETURN_IF_ERROR(Time(prompt()).status());
  return absl::OkStatus();
}

absl::Status PacedTimer::Recover() {
  while (state_ > kRecovered) RETURN_IF_ERROR(Time(decodes()).status());
  return absl::OkStatus();
}

absl::Status PacedTimer::Pace() {
  if (options_.compute_share <= 0) return absl::OkStatus();
  // A row of large batches is left behind, however long it was.
  balance_us_ = std::min(balance_us_, 2 * kStray);
  if (balance_us_ < -kStray && IsLarge(prompt())) {
    RETURN_IF_ERROR(Time(prompt()).status());
  }
  if (balance_us_ <= kStray) return absl::OkStatus();
  // To any moment between two prompts.
  const double target = kStray * (1 - 2 * phase_.Uniform01());
  while (balance_us_ > target) RETURN_IF_ERROR(Time(decodes()).status());
  return absl::OkStatus();
}

}  // namespace interleave::sim
