// KernelExecutor: an executor that runs batches on a BatchRunner, over the
// blocks that the cache handed out, and reports what was measured.
//
// A prompt's tokens are those of its RequestTokens, modulo the vocabulary, so
// that equal prefixes have equal tokens; a generated token is what the runner
// sampled, is kept on the host and fed back in the next iteration, and again
// when a preempted request is computed anew. Nothing can be foreseen, so a
// replica steps. An iteration with more tokens than the runner takes at once is
// run in parts, one after the other.

#ifndef SIM_KERNEL_EXECUTOR_KERNEL_EXECUTOR_H_
#define SIM_KERNEL_EXECUTOR_KERNEL_EXECUTOR_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/sim_time.h"
#include "scheduler/request.h"
#include "sim/cost/batch_shape.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/host_overhead.h"
#include "sim/executor.h"
#include "sim/kernel_executor/batch_runner.h"

namespace interleave::sim {

// A sampled token, and by how much its logit passes the next best one's.
struct GeneratedToken {
  int32_t token = 0;
  float logit_gap = 0;

  friend bool operator==(const GeneratedToken&,
                         const GeneratedToken&) = default;
};

class KernelExecutor final : public Executor {
 public:
  struct Options {
    // Tokens that the runner takes at once, >= 1.
    int64_t max_tokens = 0;
    // Whether each iteration's predicted time is reported beside its measured
    // one; zero is reported elsewhere.
    bool predict = false;
    // Given the number of each request that ends, and the tokens it generated.
    // May be null.
    std::function<void(int64_t, absl::Span<const GeneratedToken>)> on_done;
  };

  // The cost model and the host's overhead answer what a policy asks before a
  // batch runs; the model also says which share of a mixed iteration its
  // decodes would take alone.
  KernelExecutor(std::unique_ptr<BatchRunner> runner,
                 std::unique_ptr<CostModel> model, HostOverhead overhead,
                 Options options)
      : runner_(std::move(runner)),
        model_(std::move(model)),
        overhead_(overhead),
        options_(std::move(options)) {}

  // `device` is measured. `host` is what else has passed since the end of the
  // iteration before: bookkeeping and planning, packing, launching, and waiting
  // for the device's word. The first iteration's begins with this call.
  // Unimplemented for a batch with blocks to swap.
  absl::Status Run(const Batch& batch, IterationTiming& timing) override;
  SimDuration HostTime(int64_t num_sequences) const override {
    return overhead_.Of(num_sequences);
  }
  SimDuration Predict(const BatchShape& shape) override {
    return model_->IterationTime(shape);
  }
  bool NeedsKvTokensMax() const override { return model_->NeedsKvTokensMax(); }
  void OnRequestDone(const scheduler::Request& request) override;

  BatchRunner& runner() { return *runner_; }

 private:
  // The next `num_tokens` tokens of a request.
  struct Work {
    const scheduler::Request* request;
    int32_t num_tokens;
    int32_t cached_tokens;
    bool sample;
  };

  void CollectWork(const Batch& batch);
  // Takes work from the front, as much as the runner takes at once; the last
  // piece may be cut.
  void Pack(const Batch& batch, size_t& next);
  void AppendTokens(const Work& work);
  absl::Status RunPacked(SimDuration& device);
  void FillPrediction(const BatchShape& shape, IterationTiming& timing);

  const std::unique_ptr<BatchRunner> runner_;
  const std::unique_ptr<CostModel> model_;
  const HostOverhead overhead_;
  const Options options_;

  std::optional<std::chrono::steady_clock::time_point> last_end_;
  // By request.
  absl::flat_hash_map<int64_t, std::vector<GeneratedToken>> generated_;
  // Of the iteration being run; kept for their memory.
  std::vector<Work> work_;
  std::vector<DecoderSequence> sequences_;
  std::vector<int32_t> tokens_;
  std::vector<const scheduler::Request*> sampling_;
  DecoderOutput output_;
};

}  // namespace interleave::sim

#endif  // SIM_KERNEL_EXECUTOR_KERNEL_EXECUTOR_H_
