#include "sim/profiling/random_batches.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/deterministic_math.h"

namespace interleave::sim {
namespace {

// Prompts of the Azure conversation trace of 2023 have a mean of about 1,150
// tokens and a coefficient of variation of about one.
constexpr double kMedianPrompt = 800;
constexpr double kPromptSigma = 0.85;
constexpr int kMostChunks = 6;

// Lognormal around a median, in [1, longest].
int32_t LogNormalLength(Rng& rng, double median, double sigma,
                        int32_t longest) {
  const double length = rng.LogNormal(DeterministicLog(median), sigma);
  return static_cast<int32_t>(
      std::clamp(std::floor(length), 1.0, static_cast<double>(longest)));
}

int32_t PromptLength(Rng& rng, int32_t longest) {
  return LogNormalLength(rng, kMedianPrompt, kPromptSigma, longest);
}

// In [1, largest], uniform in the logarithm.
int32_t LogUniform(Rng& rng, int32_t largest) {
  const double x =
      DeterministicExp(rng.Uniform01() * DeterministicLog(largest + 1.0));
  return std::clamp(static_cast<int32_t>(x), 1, largest);
}

void AddDecodes(Rng& rng, const BatchLimits& limits, MeasuredBatch* batch) {
  const int32_t count = LogUniform(rng, limits.max_sequences - kMostChunks);
  batch->decode_kv =
      UnevenLengths(rng, count, kMedianPrompt, kPromptSigma, limits.max_kv);
}

// Prompts of so many tokens, the last one cut.
void AddPrompts(Rng& rng, const BatchLimits& limits, int32_t tokens,
                MeasuredBatch* batch) {
  // A chunk of one token would be a decode.
  while (tokens > 1 && batch->chunks.size() < kMostChunks) {
    PrefillChunk chunk;
    chunk.query_tokens =
        std::clamp(PromptLength(rng, limits.max_tokens), 2, tokens);
    if (batch->chunks.empty() && rng.Bernoulli(0.4)) {
      chunk.context_tokens = PromptLength(rng, limits.max_context);
    }
    tokens -= chunk.query_tokens;
    batch->chunks.push_back(chunk);
  }
}

}  // namespace

std::vector<int32_t> UnevenLengths(Rng& rng, int32_t count, double median,
                                   double sigma, int32_t longest) {
  std::vector<int32_t> lengths;
  for (int32_t i = 0; i < count; ++i) {
    lengths.push_back(LogNormalLength(rng, median, sigma, longest));
  }
  return lengths;
}

std::vector<int32_t> TypicalLengths(int32_t count, double mean, uint64_t draw) {
  constexpr double kSigma = 0.5;
  constexpr double kMost = 4;
  constexpr uint64_t kCounts = uint64_t{1} << 32;
  Rng rng(static_cast<uint64_t>(count) + kCounts * draw);
  std::vector<double> lengths;
  for (int32_t i = 0; i < count; ++i) {
    lengths.push_back(rng.LogNormal(0, kSigma));
  }
  // What is cut off the longest is given to the others.
  constexpr int kRounds = 8;
  for (int round = 0; round < kRounds; ++round) {
    const double sum = std::accumulate(lengths.begin(), lengths.end(), 0.0);
    for (double& length : lengths) {
      length = std::clamp(length * count / sum * mean, 1.0,
                          std::max(1.0, kMost * mean));
    }
  }
  std::vector<int32_t> whole;
  for (const double length : lengths) {
    whole.push_back(Whole(length));
  }
  return whole;
}

MeasuredBatch RandomBatch(Rng& rng, const BatchLimits& limits) {
  const int64_t kind = rng.UniformInt(0, 4);
  MeasuredBatch batch;
  if (kind != 0) AddDecodes(rng, limits, &batch);
  if (kind == 1) return batch;
  int32_t room =
      limits.max_tokens - static_cast<int32_t>(batch.decode_kv.size());
  // Not every iteration is full.
  if (rng.Bernoulli(0.5)) room = std::max(2, LogUniform(rng, room));
  AddPrompts(rng, limits, room, &batch);
  return batch;
}

}  // namespace interleave::sim
