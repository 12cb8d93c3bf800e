// ServedSeries: the batches of a server under changing load, one after the
// other.
//
// Sequences arrive at random, wait for their turn, are computed, and grow by a
// token a batch until they end. After some batches the rate changes, and with
// it how many sequences are under way and how prompts are computed: by chunks
// beside decodes, of one budget or another, or before all decodes. So chunks
// come in rows where prompts queue, and alone where they do not; decodes grow,
// and sequences keep their order: all that batches drawn one by one lack.

#ifndef SIM_PROFILING_SERVED_SERIES_H_
#define SIM_PROFILING_SERVED_SERIES_H_

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "sim/profiling/measured_batch.h"
#include "sim/profiling/random_batches.h"

namespace interleave::sim {

class ServedSeries {
 public:
  // Batches for which load and way stay the same.
  static constexpr int kSameLoad = 60;

  // REQUIRES: limits of at least 3 tokens of each kind, and one sequence.
  ServedSeries(Rng rng, const BatchLimits& limits);

  // Within the limits, and never empty.
  MeasuredBatch Next();

 private:
  struct Sequence {
    int32_t prompt;
    int32_t length;  // of prompt and output, at its end
    int32_t cached;  // tokens that have been computed
  };

  void ChangeLoad();
  // Lets so much time pass; its unit is a batch of decodes.
  void Arrive(double time);
  Sequence NewSequence();
  void AddChunks(MeasuredBatch* batch);
  void AddDecodes(MeasuredBatch* batch);

  Rng rng_;
  const BatchLimits limits_;
  int left_ = 0;         // batches until the load changes
  double mean_gap_ = 0;  // between arrivals
  double next_arrival_ = 0;
  double last_batch_ = 0;  // what it took
  int32_t budget_ = 0;     // tokens of a batch with prompts
  bool prompts_first_ = false;
  // In order of arrival; those that are still to be computed are the last.
  std::vector<Sequence> sequences_;
};

}  // namespace interleave::sim

#endif  // SIM_PROFILING_SERVED_SERIES_H_
