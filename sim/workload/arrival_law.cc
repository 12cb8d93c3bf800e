#include "sim/workload/arrival_law.h"

#include <cstdint>
#include <memory>

#include "base/check.h"
#include "base/random.h"
#include "base/sim_time.h"

namespace interleave::sim {
namespace {

// Where the clock stops, 250 years on, so that no gap, however unlikely, can
// take it past the range of SimTime.
constexpr SimTime kLatest = SimTime::FromNanos(8'000'000'000'000'000'000);

SimTime After(SimTime now, double gap_s) {
  const double left_s = (kLatest - now).seconds();
  return gap_s < left_s ? now + SimDuration::Seconds(gap_s) : kLatest;
}

class PoissonArrivals : public ArrivalLaw {
 public:
  explicit PoissonArrivals(double rate_rps) : mean_gap_s_(1.0 / rate_rps) {}

  SimTime Next(Rng& rng) override {
    now_ = After(now_, rng.Exponential(mean_gap_s_));
    return now_;
  }

 private:
  const double mean_gap_s_;
  SimTime now_;
};

class GammaArrivals : public ArrivalLaw {
 public:
  GammaArrivals(double rate_rps, double cv)
      : shape_(1.0 / (cv * cv)), scale_s_(cv * cv / rate_rps) {}

  SimTime Next(Rng& rng) override {
    now_ = After(now_, rng.Gamma(shape_, scale_s_));
    return now_;
  }

 private:
  const double shape_;
  const double scale_s_;
  SimTime now_;
};

class ConstantArrivals : public ArrivalLaw {
 public:
  explicit ConstantArrivals(double rate_rps) : rate_rps_(rate_rps) {}

  SimTime Next(Rng& rng) override {
    return After(SimTime::Zero(), static_cast<double>(index_++) / rate_rps_);
  }

 private:
  const double rate_rps_;
  int64_t index_ = 0;
};

class AllAtOnceArrivals : public ArrivalLaw {
 public:
  SimTime Next(Rng& rng) override { return SimTime::Zero(); }
};

}  // namespace

std::unique_ptr<ArrivalLaw> MakePoissonArrivals(double rate_rps) {
  CHECK_GT(rate_rps, 0);
  return std::make_unique<PoissonArrivals>(rate_rps);
}

std::unique_ptr<ArrivalLaw> MakeGammaArrivals(double rate_rps, double cv) {
  CHECK_GT(rate_rps, 0);
  CHECK_GT(cv, 0);
  return std::make_unique<GammaArrivals>(rate_rps, cv);
}

std::unique_ptr<ArrivalLaw> MakeConstantArrivals(double rate_rps) {
  CHECK_GT(rate_rps, 0);
  return std::make_unique<ConstantArrivals>(rate_rps);
}

std::unique_ptr<ArrivalLaw> MakeAllAtOnceArrivals() {
  return std::make_unique<AllAtOnceArrivals>();
}

}  // namespace interleave::sim
