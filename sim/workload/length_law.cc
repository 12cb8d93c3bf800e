#include "sim/workload/length_law.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/deterministic_math.h"
#include "base/random.h"

namespace interleave::sim {
namespace {

class FixedLength : public LengthLaw {
 public:
  explicit FixedLength(int32_t tokens) : tokens_(tokens) {}
  int32_t Draw(Rng& rng) override { return tokens_; }

 private:
  const int32_t tokens_;
};

class UniformLength : public LengthLaw {
 public:
  UniformLength(int32_t low, int32_t high) : low_(low), high_(high) {}
  int32_t Draw(Rng& rng) override {
    return static_cast<int32_t>(rng.UniformInt(low_, high_));
  }

 private:
  const int32_t low_;
  const int32_t high_;
};

class LogNormalLength : public LengthLaw {
 public:
  LogNormalLength(double mean, double sigma, int32_t low, int32_t high)
      : mu_(DeterministicLog(mean) - 0.5 * sigma * sigma),
        sigma_(sigma),
        low_(low),
        high_(high) {}

  int32_t Draw(Rng& rng) override {
    const double tokens = rng.LogNormal(mu_, sigma_) + 0.5;
    if (tokens >= high_) return high_;
    return std::max(low_, static_cast<int32_t>(tokens));
  }

 private:
  const double mu_;
  const double sigma_;
  const int32_t low_;
  const int32_t high_;
};

class ZipfLength : public LengthLaw {
 public:
  ZipfLength(int32_t low, int32_t high, double exponent)
      : base_(low - 1), rank_(int64_t{high} - low + 1, exponent) {}
  int32_t Draw(Rng& rng) override {
    return static_cast<int32_t>(base_ + rank_(rng));
  }

 private:
  const int32_t base_;
  const ZipfDistribution rank_;
};

class ResampledLength : public LengthLaw {
 public:
  explicit ResampledLength(std::vector<int32_t> lengths)
      : lengths_(std::move(lengths)) {}
  int32_t Draw(Rng& rng) override {
    return lengths_[static_cast<size_t>(
        rng.UniformInt(0, static_cast<int64_t>(lengths_.size()) - 1))];
  }

 private:
  const std::vector<int32_t> lengths_;
};

}  // namespace

std::unique_ptr<LengthLaw> MakeFixedLength(int32_t tokens) {
  CHECK_GE(tokens, 1);
  return std::make_unique<FixedLength>(tokens);
}

std::unique_ptr<LengthLaw> MakeUniformLength(int32_t low, int32_t high) {
  CHECK_GE(low, 1);
  CHECK_LE(low, high);
  return std::make_unique<UniformLength>(low, high);
}

std::unique_ptr<LengthLaw> MakeLogNormalLength(double mean, double sigma,
                                               int32_t low, int32_t high) {
  CHECK_GT(mean, 0);
  CHECK_GE(sigma, 0);
  CHECK_GE(low, 1);
  CHECK_LE(low, high);
  return std::make_unique<LogNormalLength>(mean, sigma, low, high);
}

double LogNormalSigmaFromCv(double cv) {
  return std::sqrt(DeterministicLog(1.0 + cv * cv));
}

std::unique_ptr<LengthLaw> MakeZipfLength(int32_t low, int32_t high,
                                          double exponent) {
  CHECK_GE(low, 1);
  CHECK_LE(low, high);
  return std::make_unique<ZipfLength>(low, high, exponent);
}

std::unique_ptr<LengthLaw> MakeResampledLength(std::vector<int32_t> lengths) {
  CHECK(!lengths.empty());
  return std::make_unique<ResampledLength>(std::move(lengths));
}

}  // namespace interleave::sim
