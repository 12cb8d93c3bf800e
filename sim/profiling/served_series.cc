#include "sim/profiling/served_series.h"

#include <algorithm>
#include <cstdint>
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
constexpr int32_t kBudgets[] = {512, 1024, 2048};
constexpr double kPromptsFirst = 0.25;
// Arrivals in the time of a batch of decodes: from what a server hardly notices
// to more than it can do.
constexpr double kFewestArrivals = 0.03;
constexpr double kMostArrivals = 0.2;
// So many tokens of prompts take about as long as a batch of decodes.
constexpr double kTokensOfATime = 250;

}  // namespace

ServedSeries::ServedSeries(Rng rng, const BatchLimits& limits)
    : rng_(std::move(rng)), limits_(limits) {}

MeasuredBatch ServedSeries::Next() {
  if (left_ == 0) ChangeLoad();
  --left_;
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
  left_ = kSameLoad;
  const double span = DeterministicLog(kMostArrivals / kFewestArrivals);
  mean_gap_ = DeterministicExp(-rng_.Uniform01() * span) / kFewestArrivals;
  next_arrival_ = rng_.Exponential(mean_gap_);
  budget_ = std::min(limits_.max_tokens, kBudgets[rng_.UniformInt(0, 2)]);
  prompts_first_ = rng_.Bernoulli(kPromptsFirst);
  sequences_.clear();
  for (int32_t n = LogUniform(rng_, limits_.max_sequences); n > 0; --n) {
    sequences_.push_back(NewSequence());
    Sequence& s = sequences_.back();
    s.cached = static_cast<int32_t>(rng_.UniformInt(s.prompt, s.length - 1));
  }
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
