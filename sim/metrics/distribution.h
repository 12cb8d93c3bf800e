// Distribution: counts, mean, maximum and quantiles of durations, in bounded
// memory.
//
// Up to kExactSamples added samples everything is exact.  Past that, samples
// are counted in buckets 2^-11 of their size wide (as in HdrHistogram), so that
// a quantile is within 0.05% of the exact one; count, mean and maximum stay
// exact.

#ifndef SIM_METRICS_DISTRIBUTION_H_
#define SIM_METRICS_DISTRIBUTION_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "base/sim_time.h"

namespace interleave::sim {

class Distribution {
 public:
  static constexpr size_t kExactSamples = size_t{1} << 16;

  // Adds `weight` samples of one value, which must not be negative.
  void Add(SimDuration value, int64_t weight = 1) {
    const int64_t ns = value.nanos();
    count_ += weight;
    sum_ += static_cast<Sum>(ns) * weight;
    if (ns > max_) max_ = ns;
    if (!buckets_.empty()) [[likely]] {
      buckets_[BucketOf(ns)] += weight;
    } else {
      AddExact(ns, weight);
    }
  }

  // The same, `weight` samples of each value.
  void AddEach(absl::Span<const SimDuration> values, int64_t weight) {
    if (buckets_.empty()) {
      for (const SimDuration value : values) Add(value, weight);
      return;
    }
    int64_t sum = 0;
    int64_t max = max_;
    for (const SimDuration value : values) {
      const int64_t ns = value.nanos();
      sum += ns;
      max = std::max(max, ns);
      buckets_[BucketOf(ns)] += weight;
    }
    max_ = max;
    count_ += weight * static_cast<int64_t>(values.size());
    sum_ += static_cast<Sum>(sum) * weight;
  }

  int64_t count() const { return count_; }
  // Zero when empty.
  SimDuration max() const { return SimDuration::Nanos(max_); }
  double mean_nanos() const {
    return count_ == 0
               ? 0
               : static_cast<double>(sum_) / static_cast<double>(count_);
  }
  // Sum of all samples, in nanoseconds.
  double sum_nanos() const { return static_cast<double>(sum_); }

  // The q-quantile, in nanoseconds, interpolated linearly between the two
  // nearest ranks (rank q * (count - 1), as numpy does); 0 when empty.
  // REQUIRES: 0 <= q <= 1.
  double QuantileNanos(double q) const;

 private:
  // Weighted sums of a long run pass 2^63 ns.
  using Sum = __int128;
  struct Sample {
    int64_t ns;
    int64_t weight;
  };

  static constexpr int kPrecisionBits = 11;
  static constexpr size_t kNumBuckets = size_t{64 - kPrecisionBits}
                                        << kPrecisionBits;

  static size_t BucketOf(int64_t ns) {
    const uint64_t value = static_cast<uint64_t>(ns);
    const int shift = std::max(
        0, static_cast<int>(std::bit_width(value)) - (kPrecisionBits + 1));
    return (static_cast<size_t>(shift) << kPrecisionBits) +
           static_cast<size_t>(value >> shift);
  }
  // The middle of a bucket.
  static double BucketValue(size_t bucket);

  void AddExact(int64_t ns, int64_t weight);
  void Spill();
  // The value of the sample of a rank (0-based) among all in order.
  double ValueAt(int64_t rank) const;

  int64_t count_ = 0;
  int64_t max_ = 0;
  Sum sum_ = 0;
  // One of the two is in use.
  mutable std::vector<Sample> samples_;
  mutable bool sorted_ = true;
  std::vector<int64_t> buckets_;
};

}  // namespace interleave::sim

#endif  // SIM_METRICS_DISTRIBUTION_H_
