// Replica: one engine, with its requests, its policy and its executor.
//
// An iteration goes through these steps, in this order, and nothing else
// changes the engine's state:
//
//   Plan ─► Validate ─► Commit ─► Run ─ (time passes) ─► Complete
//
// Complete gives every token of the iteration the same time, its end.
//
// Fast forward: while a policy promises that its plan of "all decodes" stands
// (IterationPlan::set_repeat), and no request arrives or ends and blocks
// suffice, Start carries out iteration after iteration without asking anybody.
// The outcome is the same to the last bit.

#ifndef SIM_REPLICA_H_
#define SIM_REPLICA_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/sim_time.h"
#include "scheduler/engine_state.h"
#include "scheduler/engine_view.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/policy.h"
#include "scheduler/request_spec.h"
#include "sim/cost/batch_shape.h"
#include "sim/executor.h"
#include "sim/metrics/gap_history.h"
#include "sim/metrics/metrics.h"
#include "sim/workload/workload.h"

namespace interleave::sim {

class Replica final : private scheduler::IterationPredictor {
 public:
  struct Options {
    int32_t index = 0;
    scheduler::EngineState::Options engine;
    // Where the executor can foresee.
    bool fast_forward = true;
    // Whether the next iteration is planned while one runs, as in vLLM's
    // asynchronous scheduling, so that the device never waits for the host.
    // What happens during an iteration (a request arrives, or ends and gives
    // back its blocks) then counts one iteration later.
    bool async_scheduling = false;
    // For messages.
    std::string policy_name;
  };

  // `metrics` and `workload` (told of requests that end) must outlive the
  // replica; so must `sink` where it is not nullptr.
  static absl::StatusOr<std::unique_ptr<Replica>> Create(
      const Options& options, std::unique_ptr<scheduler::Policy> policy,
      std::unique_ptr<Executor> executor, Metrics* metrics, Workload* workload,
      RecordSink* sink);

  // Hands a request over at its arrival.  One that can never be served is
  // rejected here.
  void Deliver(scheduler::RequestSpec spec);

  // Plans and starts an iteration at `now`; returns when it ends, or
  // SimTime::Infinity() when there is nothing to run before the next arrival.
  // May carry out whole iterations that end before `horizon`, the time of the
  // next thing that could change a plan.
  // FailedPrecondition names the policy and the rule it broke.
  // REQUIRES: !busy().
  absl::StatusOr<SimTime> Start(SimTime now, SimTime horizon);

  // Applies the outcome of the iteration that ends now.
  // REQUIRES: busy().
  void Complete();

  bool busy() const { return busy_; }
  const scheduler::EngineState& state() const { return *state_; }
  Executor& executor() { return *executor_; }

  // A hash of the order, times and subjects of all events so far.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  Replica(const Options& options, std::unique_ptr<scheduler::EngineState> state,
          std::unique_ptr<scheduler::Policy> policy,
          std::unique_ptr<Executor> executor, Metrics* metrics,
          Workload* workload, RecordSink* sink);

  // IterationPredictor:
  SimDuration Predict(const scheduler::IterationPlan& plan) const override;

  // Puts a request in the waiting queue, or rejects it.
  void Enqueue(scheduler::RequestSpec spec);
  // Those that had arrived when this iteration was planned.
  void EnqueueArrived(SimTime planned);
  // Asks the policy until there are tokens to compute.  Returns false when
  // there are none.
  absl::StatusOr<bool> PlanAndCommit(SimTime now);
  absl::Status Annotate(const absl::Status& status) const;
  void CarryOutRejections(SimTime now);
  void NoteCommitted(SimTime now);
  // Before a request stops being steady: reads its share of the history.
  void FoldHistory(scheduler::Request& request);
  void BuildShape();
  // The steady decodes.  Into place, which is cheaper than a copy.
  void FillSteady(DecodeGroup& group) const;
  absl::Status RunBatch(SimTime now);
  bool MayRepeat() const;
  bool HitsMayChange() const;
  bool StartRepeated(SimTime now);
  void RunAhead(SimTime horizon);
  // Whether the iteration in flight may end, and the next one begin, with
  // nothing else happening.
  bool MayGoOn(SimTime horizon) const;
  void StartNextDecodes();
  // The first `count` foreseen iterations are carried out; the last one of them
  // is in flight, and began at `now`.
  void StartForeseen(SimTime now, size_t count);
  // Completes iterations and starts the ones after, up to `lookahead` of them.
  // REQUIRES: MayGoOn(horizon), no fresh requests, no records wanted.
  void RunStretch(SimTime horizon, size_t lookahead);
  // Sum of length x blocks in use over decode iterations with these starts,
  // the one in flight being the first; `end`: of the last one.
  NanosSum BlockTime(absl::Span<const SimTime> starts, SimTime end) const;

  void CompleteDecodes();
  void CompletePieces();
  void AddPieceGap(scheduler::Request& request, const GapParts& iteration);
  void EndFinished();
  void End(scheduler::Request& request);
  void PruneHistory();
  void RecordIteration();
  GapParts PartsOfIteration() const;
  static uint64_t Mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15;
    return hash ^ (hash >> 29);
  }
  void Hash(uint64_t value) { fingerprint_ = Mix(fingerprint_, value); }

  const Options options_;
  const std::unique_ptr<scheduler::EngineState> state_;
  const std::unique_ptr<scheduler::Policy> policy_;
  const std::unique_ptr<Executor> executor_;
  Metrics& metrics_;
  Workload& workload_;
  RecordSink* const sink_;
  const int64_t token_budget_;
  const bool needs_longest_;
  const bool fast_forward_;

  // Arrived during the iteration in flight, where planning runs ahead of it.
  std::deque<scheduler::RequestSpec> arrived_;
  // The iteration in flight.
  bool busy_ = false;
  scheduler::IterationPlan plan_;
  scheduler::CommittedBatch committed_;
  std::vector<PrefillChunk> chunks_;
  BatchShape shape_;
  SimTime start_;
  SimTime end_;
  IterationTiming timing_;
  int64_t recomputed_tokens_ = 0;

  // Whether the last plan may be carried out again; see Repeat.
  bool repeatable_ = false;
  int64_t iteration_ = 0;
  // End of the last decode_all iteration.
  SimTime last_decode_end_;
  GapHistory history_;
  size_t history_prune_size_;
  // Durations of coming decode iterations.
  static constexpr size_t kFirstLookahead = 8;
  static constexpr size_t kLookahead = 512;
  std::array<SimDuration, kLookahead> foreseen_;
  // Of the iterations of a stretch.  Kept here, since clearing them would cost
  // a short stretch more than all the rest of it.
  std::array<SimDuration, kLookahead> lengths_;
  std::array<SimTime, kLookahead> starts_;
  uint64_t fingerprint_ = 0xcbf29ce484222325;
};

}  // namespace interleave::sim

#endif  // SIM_REPLICA_H_
