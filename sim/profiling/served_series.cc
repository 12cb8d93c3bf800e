#include "sim/profiling/served_series.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "base/deterministic_math.h"
#include "base/random.h"
#include "sim/cost/batch_shape.h"
#include "sim/profiling/measured_batch.h"
#include "sim/profiling/random_batches.h"

namespace interleave::sim {
namespace {

// Outputs of the Azure conversation trace of 2023 have a mean of about 210
// tokens.
constexpr double kMedianOutput = 150;
constexpr double kOutputSigma = 0.85;
constexpr int32_t kBudgets[] = {512, 1024, 2048, 4096};
constexpr double kPromptsFirst = 0.25;
// Arrivals in the time of a batch of decodes: from what a server hardly notices
// to more than it can do.
constexpr double kFewestArrivals = 0.015;
constexpr double kMostArrivals = 0.2;
// So many tokens of prompts take about as long as a batch of decodes.
constexpr double kTokensOfATime = 250;
// Loads are few, so their places are spread evenly: each such step, modulo 1,
// lands in the largest gap that the ones before have left (the R2 sequence of
// M. Roberts, "The Unreasonable Effectiveness of Quasirandom Sequences").
constexpr double kRateStep = 0.7548776662;
constexpr double kCountStep = 0.5698402910;

double Step(double* place, double step) {
  *place += step;
  if (*place >= 1) *place -= 1;
  return *place;
}

}  // namespace

ServedSeries::ServedSeries(Rng rng, const BatchLimits& limits)
    : rng_(std::move(rng)),
      limits_(limits),
      next_rate_(rng_.Uniform01()),
      next_count_(rng_.Uniform01()) {}

MeasuredBatch ServedSeries::Next() {
  if (batches_ % kSameLoad == 0) ChangeLoad();
  if (batches_ % kSameWay == 0) ChangeWay();
  ++batches_;
  Arrive(last_batch_);
  MeasuredBatch batch;
  const bool waits = sequences_.back().cached < sequences_.back().prompt;
  if (!waits || !prompts_first_) AddDecodes(&batch);
  if (waits) AddChunks(&batch);
  std::erase_if(sequences_,
                [](const Sequence& s) { return s.cached == s.length; });
  last_batch_ = 1;
  for (const PrefillChunk& chunk : batch.chunks) {
    last_batch_ += chunk.query_tokens / kTokensOfATime;
  }
  return batch;
}

void ServedSeries::ChangeLoad() {
  const double span = DeterministicLog(kMostArrivals / kFewestArrivals);
  mean_gap_ =
      DeterministicExp(-Step(&next_rate_, kRateStep) * span) / kFewestArrivals;
  next_arrival_ = rng_.Exponential(mean_gap_);
  sequences_.clear();
  const double most = DeterministicLog(limits_.max_sequences);
  const double count = DeterministicExp(Step(&next_count_, kCountStep) * most);
  for (auto n = static_cast<int32_t>(count + 0.5); n > 0; --n) {
    sequences_.push_back(NewSequence());
    Sequence& s = sequences_.back();
    s.cached = static_cast<int32_t>(rng_.UniformInt(s.prompt, s.length - 1));
  }
}

void ServedSeries::ChangeWay() {
  budget_ = std::min(limits_.max_tokens,
                     kBudgets[rng_.UniformInt(0, std::size(kBudgets) - 1)]);
  prompts_first_ = rng_.Bernoulli(kPromptsFirst);
}

void ServedSeries::Arrive(double time) {
  next_arrival_ -= time;
  while (next_arrival_ <= 0) {
    next_arrival_ += rng_.Exponential(mean_gap_);
    // One that finds the server full goes elsewhere.
    if (static_cast<int32_t>(sequences_.size()) < limits_.max_sequences) {
      sequences_.push_back(NewSequence());
    }
  }
  if (sequences_.empty()) sequences_.push_back(NewSequence());
}

ServedSeries::Sequence ServedSeries::NewSequence() {
  const int32_t longest = std::min(limits_.max_kv, limits_.max_context);
  Sequence sequence;
  sequence.prompt = std::max(2, PromptLength(rng_, longest - 1));
  sequence.length =
      sequence.prompt + LogNormalLength(rng_, kMedianOutput, kOutputSigma,
                                        longest - sequence.prompt);
  sequence.cached = 0;
  return sequence;
}

void ServedSeries::AddDecodes(MeasuredBatch* batch) {
  for (Sequence& s : sequences_) {
    if (s.cached < s.prompt) continue;
    batch->decode_kv.push_back(s.cached);
    ++s.cached;
  }
}

void ServedSeries::AddChunks(MeasuredBatch* batch) {
  int32_t room = budget_ - static_cast<int32_t>(batch->decode_kv.size());
  for (Sequence& s : sequences_) {
    if (s.cached >= s.prompt) continue;
    int32_t tokens = std::min(room, s.prompt - s.cached);
    // One token, now or at the end, would be a decode.
    if (s.prompt - s.cached - tokens == 1) --tokens;
    if (tokens < 2) return;
    batch->chunks.push_back({tokens, s.cached});
    s.cached += tokens;
    room -= tokens;
  }
}

}  // namespace interleave::sim
