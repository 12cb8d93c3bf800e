// Calibrate: what tables of small pieces are off by for whole batches, and how
// much a card slows down under them.
//
// Tables are sums of pieces that were measured apart, on a card that had
// recovered.  Whole batches in a long series, as a server runs them, take a
// little more or less than these sums, and longer on a throttled card: batch i
// takes
//
//   device_i = table_i x level x (1 + slowdown x state_i)
//
// where the state follows the work (sim/cost/throttle.h), the slowdown is
// between that of memory and that of matrix products (the attention of decodes
// moves memory whatever it runs beside), and the level is one number for all
// batches of about a size, one for prompts and one for decodes alone.

#ifndef SIM_PROFILING_CALIBRATION_H_
#define SIM_PROFILING_CALIBRATION_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "sim/cost/level.h"
#include "sim/cost/throttle.h"

namespace interleave::sim {

// One of a series of batches that ran one after the other.
struct SeriesSample {
  // Of a batch with prompts, else 0.
  int64_t tokens_beside_prefill = 0;
  // Of a batch of decodes alone.
  int64_t decodes = 0;
  // What the tables say for a recovered card (0: they hold no such batch, which
  // then counts for the card's state only), of that the attention of decodes,
  // and what it took; microseconds.
  double table_us = 0;
  double decode_attention_us = 0;
  double device_us = 0;
};

struct Calibration {
  ThrottleTable throttle;
  Level with_prefill;   // by tokens
  Level decodes_alone;  // by sequences
};

// The least squared relative error, with levels by which batches of a size take
// together what they took; time constants, numbers of tokens from which on a
// batch multiplies matrices all the time, and (where decodes alone are of
// several sizes) memory states are tried out.  The card had recovered before
// the first sample.  Batches with prompts of a size that occurs often (32 times
// and more) have a level of their own, others one for 16 samples and more of
// neighbouring sizes, decodes alone one for 96 and more; slowdowns are fitted
// to what 64 and 256 have apart.  A sample that took more than twice what the
// tables say is a hiccup, and counts for the card's state only.  No throttling
// where no slowdown is half a percent.
Calibration Calibrate(absl::Span<const SeriesSample> series,
                      double memory_tokens);

// The same for a card that is known not to be throttled.
Calibration CalibrateLevels(absl::Span<const SeriesSample> series);

}  // namespace interleave::sim

#endif  // SIM_PROFILING_CALIBRATION_H_
