#include "sim/workload/azure_like_trace.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/random.h"
#include "base/sim_time.h"

namespace interleave::sim {
namespace {

// Quantiles of the lengths, in tokens, counted in the real trace.
struct Quantile {
  double share;
  int32_t prompt_tokens;
  int32_t output_tokens;
};
constexpr Quantile kQuantiles[] = {
    {0, 2, 7},          {0.01, 29, 16},     {0.02, 91, 24},
    {0.05, 181, 41},    {0.075, 200, 48},   {0.1, 207, 54},
    {0.15, 372, 67},    {0.2, 387, 77},     {0.25, 396, 85},
    {0.3, 403, 91},     {0.35, 414, 96},    {0.4, 703, 103},
    {0.45, 984, 113},   {0.5, 1020, 129},   {0.55, 1045, 151},
    {0.6, 1071, 177},   {0.65, 1097, 217},  {0.7, 1130, 384},
    {0.75, 1189, 395},  {0.8, 1315, 400},   {0.85, 1876, 411},
    {0.9, 2735, 424},   {0.925, 4075, 430}, {0.95, 4083, 451},
    {0.975, 4092, 522}, {0.99, 4142, 601},  {0.995, 4831, 643},
    {0.999, 6212, 954}, {1, 14050, 1000},
};

// Arrivals: requests a second, and the coefficient of variation of the gaps.
constexpr double kRateRps = 5.53;
constexpr double kGapCv = 1.094;

// The correlation of two normal variables whose ranks correlate as prompts and
// outputs do, 0.073 (Spearman): 2 sin(pi / 6 * 0.073).
constexpr double kNormalCorrelation = 0.0764;

// The length at `share` of the requests, linear between the known quantiles.
int32_t LengthAt(double share, int32_t Quantile::*length) {
  const Quantile* upper = std::begin(kQuantiles) + 1;
  while (upper->share < share) ++upper;
  const Quantile* lower = upper - 1;
  const double part = (share - lower->share) / (upper->share - lower->share);
  const double tokens =
      lower->*length + part * (upper->*length - lower->*length);
  return static_cast<int32_t>(tokens + 0.5);
}

// The rank of each value among all, from 0.
std::vector<int64_t> RanksOf(const std::vector<double>& values) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&values](int64_t a, int64_t b) {
    return values[a] != values[b] ? values[a] < values[b] : a < b;
  });
  std::vector<int64_t> ranks(values.size());
  for (size_t i = 0; i < order.size(); ++i) {
    ranks[order[i]] = static_cast<int64_t>(i);
  }
  return ranks;
}

struct LengthRanks {
  std::vector<int64_t> prompt;
  std::vector<int64_t> output;
};

// Every rank once on either side, correlated as asked: the lengths that follow
// have the quantiles exactly, however few they are.
LengthRanks DrawRanks(int64_t num_requests, Rng rng) {
  const double independent =
      std::sqrt(1 - kNormalCorrelation * kNormalCorrelation);
  std::vector<double> prompt;
  std::vector<double> output;
  for (int64_t i = 0; i < num_requests; ++i) {
    prompt.push_back(rng.StandardNormal());
    output.push_back(kNormalCorrelation * prompt.back() +
                     independent * rng.StandardNormal());
  }
  return {RanksOf(prompt), RanksOf(output)};
}

// Gamma-distributed gaps, in seconds, scaled so that their mean is exact.
std::vector<double> DrawGaps(int64_t num_gaps, Rng rng) {
  std::vector<double> gaps;
  double sum = 0;
  for (int64_t i = 0; i < num_gaps; ++i) {
    gaps.push_back(rng.Gamma(1 / (kGapCv * kGapCv), kGapCv * kGapCv));
    sum += gaps.back();
  }
  const double scale = static_cast<double>(num_gaps) / (sum * kRateRps);
  for (double& gap : gaps) gap *= scale;
  return gaps;
}

// "2000-01-01 HH:MM:SS.fffffff", the time of day `since` midnight.
std::string TimestampAt(SimDuration since) {
  const int64_t ticks = since.nanos() / 100;
  const int64_t seconds = ticks / 10'000'000;
  const int64_t day = 1 + seconds / 86400;
  return absl::StrFormat("2000-01-%02d %02d:%02d:%02d.%07d", day,
                         seconds / 3600 % 24, seconds / 60 % 60, seconds % 60,
                         ticks % 10'000'000);
}

}  // namespace

std::string AzureLikeTrace(int64_t num_requests, uint64_t seed) {
  CHECK_GE(num_requests, 1);
  // Some 4 days; the date stays in January.
  CHECK_LE(num_requests, 2'000'000);
  const Rng rng(seed);
  const LengthRanks ranks = DrawRanks(num_requests, rng.Fork("lengths"));
  const auto share = [num_requests](int64_t rank) {
    return (static_cast<double>(rank) + 0.5) /
           static_cast<double>(num_requests);
  };
  const std::vector<double> gaps_s =
      DrawGaps(num_requests - 1, rng.Fork("arrivals"));
  SimDuration arrival = SimDuration::Zero();
  std::string text = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  for (int64_t i = 0; i < num_requests; ++i) {
    if (i > 0) arrival += SimDuration::Seconds(gaps_s[i - 1]);
    absl::StrAppend(
        &text, TimestampAt(arrival), ",",
        LengthAt(share(ranks.prompt[i]), &Quantile::prompt_tokens), ",",
        LengthAt(share(ranks.output[i]), &Quantile::output_tokens), "\n");
  }
  return text;
}

}  // namespace interleave::sim
