// ServedSeries: batches as of a server under changing load, one after the
// other, for tests that have no server.
//
// Sequences arrive at random, wait for their turn, are computed, and grow by a
// token a batch until they end. From time to time the way in which prompts are
// computed changes: by chunks beside decodes, of one budget or another, or
// before all decodes; and more rarely the rate of arrivals, and with it how
// many sequences are under way. So chunks come in rows where prompts queue, and
// alone where they do not; decodes grow, and sequences keep their order; and a
// load lasts for seconds, as long as a card takes to warm up or cool down: all
// that batches drawn one by one lack.

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
  // Batches for which the way stays the same, and the load.
  static constexpr int kSameWay = 60;
  static constexpr int kSameLoad = 8 * kSameWay;

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
  void ChangeWay();
  // Lets so much time pass; its unit is a batch of decodes.
  void Arrive(double time);
  Sequence NewSequence();
  void AddChunks(MeasuredBatch* batch);
  void AddDecodes(MeasuredBatch* batch);

  Rng rng_;
  const BatchLimits limits_;
  int64_t batches_ = 0;
  // Where on the scales of arrivals and of sequences the loads are.
  double next_rate_;
  double next_count_;
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
