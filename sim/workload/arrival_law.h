// ArrivalLaw: when the requests of an open-loop workload arrive.

#ifndef SIM_WORKLOAD_ARRIVAL_LAW_H_
#define SIM_WORKLOAD_ARRIVAL_LAW_H_

#include <memory>

#include "base/random.h"
#include "base/sim_time.h"

namespace interleave::sim {

class ArrivalLaw {
 public:
  virtual ~ArrivalLaw() = default;

  // The next arrival; never before the last one.
  virtual SimTime Next(Rng& rng) = 0;
};

// Poisson: exponential gaps of mean 1 / rate, never clipped.  The first arrival
// follows a gap too.
// REQUIRES: rate_rps, in requests a second, is in (0, 1e9]; everywhere here.
std::unique_ptr<ArrivalLaw> MakePoissonArrivals(double rate_rps);

// Gamma-distributed gaps of mean 1 / rate and coefficient of variation `cv`:
// above 1 bursty, 1 Poisson, below 1 smoother.
// REQUIRES: cv > 0.
std::unique_ptr<ArrivalLaw> MakeGammaArrivals(double rate_rps, double cv);

// Arrival i at i / rate, i from 0, each rounded alone, so that no error grows.
std::unique_ptr<ArrivalLaw> MakeConstantArrivals(double rate_rps);

// Every request at time zero.
std::unique_ptr<ArrivalLaw> MakeAllAtOnceArrivals();

}  // namespace interleave::sim

#endif  // SIM_WORKLOAD_ARRIVAL_LAW_H_
