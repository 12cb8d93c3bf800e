// RunnerTimer: times batches on what runs them, over real block tables.

#ifndef SIM_PROFILING_RUNNER_TIMER_H_
#define SIM_PROFILING_RUNNER_TIMER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/kernel_executor/batch_runner.h"
#include "sim/profiling/batch_timer.h"

namespace interleave::sim {

class RunnerTimer final : public BatchTimer {
 public:
  // `runner` must outlive the timer.  Tokens are random by `seed`.  A
  // sequence's blocks lie in a row, as a KV cache hands them out that was never
  // full, and every batch has others than the one before.  A batch of more
  // blocks than there are reads some of them twice, as far apart as there are
  // blocks: too far for a cache to help.  Decodes by all layers that repeat the
  // ones before read the same blocks, as in an engine: the weights of all
  // layers are read in between.
  RunnerTimer(BatchRunner* runner, uint64_t seed);

  absl::StatusOr<BatchTime> Time(const MeasuredBatch& batch) override;

 private:
  void Add(int32_t num_tokens, int32_t cached_tokens);
  // Whether a batch is the one before again, in decodes by all layers.
  bool RepeatsDecodes(const MeasuredBatch& batch) const;

  BatchRunner* const runner_;
  const int64_t num_blocks_;
  const int32_t block_size_;
  // Every block once, then the first ones again, so that any sequence's blocks
  // are a piece of it.
  std::vector<int32_t> blocks_;
  int64_t next_block_ = 0;
  // Of the batch before.
  MeasuredBatch latest_;
  int64_t latest_begin_ = 0;
  std::vector<int32_t> random_tokens_;
  // Of the batch being made.
  std::vector<DecoderSequence> sequences_;
  std::vector<int32_t> tokens_;
  std::vector<int64_t> first_blocks_;
};

}  // namespace interleave::sim

#endif  // SIM_PROFILING_RUNNER_TIMER_H_
