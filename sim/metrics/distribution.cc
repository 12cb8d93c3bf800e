#include "sim/metrics/distribution.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace interleave::sim {

void Distribution::AddExact(int64_t ns, int64_t weight) {
  // Iterations of a steady batch come with equal gaps; keep them together.
  if (!samples_.empty() && samples_.back().ns == ns) {
    samples_.back().weight += weight;
    return;
  }
  if (samples_.size() == kExactSamples) {
    Spill();
    buckets_[BucketOf(ns)] += weight;
    return;
  }
  samples_.push_back({ns, weight});
  sorted_ = false;
}

void Distribution::Spill() {
  buckets_.assign(kNumBuckets, 0);
  for (const Sample& sample : samples_) {
    buckets_[BucketOf(sample.ns)] += sample.weight;
  }
  samples_.clear();
  samples_.shrink_to_fit();
}

double Distribution::BucketValue(size_t bucket) {
  constexpr size_t kLinear = size_t{2} << kPrecisionBits;
  if (bucket < kLinear) return static_cast<double>(bucket);
  const size_t shift = (bucket >> kPrecisionBits) - 1;
  const size_t mantissa = bucket - (shift << kPrecisionBits);
  const double width = std::ldexp(1.0, static_cast<int>(shift));
  return (static_cast<double>(mantissa) + 0.5) * width;
}

double Distribution::ValueAt(int64_t rank) const {
  if (rank >= count_ - 1) return static_cast<double>(max_);
  int64_t seen = 0;
  if (!buckets_.empty()) {
    for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      seen += buckets_[bucket];
      if (rank < seen) {
        return std::min(BucketValue(bucket), static_cast<double>(max_));
      }
    }
    return static_cast<double>(max_);
  }
  for (const Sample& sample : samples_) {
    seen += sample.weight;
    if (rank < seen) return static_cast<double>(sample.ns);
  }
  return static_cast<double>(max_);
}

double Distribution::QuantileNanos(double q) const {
  CHECK(q >= 0 && q <= 1);
  if (count_ == 0) return 0;
  if (!sorted_) {
    std::sort(samples_.begin(), samples_.end(),
              [](const Sample& a, const Sample& b) { return a.ns < b.ns; });
    sorted_ = true;
  }
  const double rank = q * static_cast<double>(count_ - 1);
  const double below = std::floor(rank);
  const double low = ValueAt(static_cast<int64_t>(below));
  if (rank == below) return low;
  const double high = ValueAt(static_cast<int64_t>(below) + 1);
  return low + (high - low) * (rank - below);
}

}  // namespace interleave::sim
