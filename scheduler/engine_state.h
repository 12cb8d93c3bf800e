// EngineState: the requests of one replica, the queues they stand in and the
// cache blocks they hold.
//
// It knows nothing of time and decides nothing: its owner (the engine) asks a
// policy for a plan, lets this class validate and commit it, runs the batch,
// and has the outcome applied.  An iteration costs what changed:
//
// - Requests in the decode phase that simply go on are *steady*: their progress
//   is the counter of decode iterations.  Nothing visits them.
// - The steady ones that need their next block in the same iteration stand in
//   one class, keyed by counter modulo block size, so the blocks that "all
//   decodes, one token each" takes are known in O(1).
// - Their ends are in a heap keyed by the counter's value.
// - Count, sum and sum of squares of their KV lengths advance in O(1).
//
// A decode that a plan lists on its own, rather than by IterationPlan::
// DecodeAll, is *loose*: it is visited, and pays for it.
//
// Invariants, all checked by CheckInvariants():
//   I1 a request is in exactly one of waiting, running, swapped;
//   I2 running = prefilling + loose + steady;
//   I3 sums, classes and heap agree with a count over the steady requests;
//   I4 a request holds ceil(computed / block size) blocks, or its reservation;
//   I5 the cache's own invariants.
//
// Not thread-safe.

#ifndef SCHEDULER_ENGINE_STATE_H_
#define SCHEDULER_ENGINE_STATE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cache/kv_cache_manager.h"
#include "scheduler/indexed_heap.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/limits.h"
#include "scheduler/request.h"
#include "scheduler/request_spec.h"

namespace interleave::scheduler {

// Requests by the decode iteration that ends them, ties by id.
struct FinishOrder {
  static bool Before(const Request& a, const Request& b) {
    return a.finish_iteration_ != b.finish_iteration_
               ? a.finish_iteration_ < b.finish_iteration_
               : a.id() < b.id();
  }
  static int32_t& Index(Request& request) { return request.finish_index_; }
};

// Steady requests, longest KV first, ties by id.  All of them grow together, so
// the order never changes.
struct LengthOrder {
  static bool Before(const Request& a, const Request& b) {
    const int64_t length_a = a.computed_ - a.joined_;
    const int64_t length_b = b.computed_ - b.joined_;
    return length_a != length_b ? length_a > length_b : a.id() < b.id();
  }
  static int32_t& Index(Request& request) { return request.length_index_; }
};

// One piece of a committed plan.
struct CommittedPiece {
  Request* request = nullptr;
  int32_t num_tokens = 0;
  // Tokens of the request in the cache before.
  int32_t context_tokens = 0;
  // How many of num_tokens had been computed once before.
  int32_t recomputed_tokens = 0;
  // The piece ends with a token sampled.
  bool samples = false;
  // The piece is one token of a request in the decode phase.
  bool decode = false;
  // The piece admitted the request, with this many tokens found in the cache.
  bool admitted = false;
  int32_t prefix_hit_tokens = 0;
};

// What a committed plan asks of the executor.
struct CommittedBatch {
  bool decode_all = false;
  // Excludes swap-ins.
  std::vector<CommittedPiece> pieces;
  int64_t num_preemptions = 0;
  int64_t swapped_out_blocks = 0;
  int64_t swapped_in_blocks = 0;

  void Clear() {
    decode_all = false;
    num_preemptions = 0;
    pieces.clear();
    swapped_out_blocks = 0;
    swapped_in_blocks = 0;
  }
};

class EngineState {
 public:
  struct Options {
    Limits limits;
    cache::KvCacheOptions cache;
    // Whether longest_steady_kv_tokens() is kept.
    bool track_longest = false;
  };

  // InvalidArgument names the limit that makes no sense.
  static absl::StatusOr<std::unique_ptr<EngineState>> Create(
      const Options& options);

  EngineState(const EngineState&) = delete;
  EngineState& operator=(const EngineState&) = delete;

  // ---- What there is ----

  const Limits& limits() const { return limits_; }
  const cache::KvCacheManager& cache() const { return *cache_; }
  cache::KvCacheManager& mutable_cache() { return *cache_; }

  RequestQueue& waiting() { return waiting_; }
  const RequestQueue& waiting() const { return waiting_; }
  // In order of admission.
  RequestQueue& running() { return running_; }
  const RequestQueue& running() const { return running_; }
  const RequestQueue& swapped() const { return swapped_; }
  // Running requests whose prompt is not computed yet, in order of admission.
  const PhaseList& prefilling() const { return prefilling_; }
  const PhaseList& loose() const { return loose_; }

  int64_t num_steady() const { return num_steady_; }
  int64_t num_decoding() const { return num_steady_ + loose_.size(); }
  int64_t num_requests() const {
    return waiting_.size() + running_.size() + swapped_.size();
  }

  // Of the steady requests, in tokens per sequence before the next iteration.
  int64_t steady_kv_tokens() const { return kv_tokens_; }
  int64_t steady_kv_tokens_squared() const { return kv_tokens_squared_; }
  // REQUIRES: Options::track_longest.  0 when none is steady.
  int64_t longest_steady_kv_tokens() const {
    return by_length_.empty() ? 0 : by_length_.top().computed();
  }

  // Steady requests that have become so since ClearFresh.
  absl::Span<Request* const> fresh() const { return fresh_; }
  void ClearFresh();

  // How many decode_all iterations have been completed.
  int64_t decode_iterations() const { return decode_iterations_; }
  // The steady request that ends first; its value of the counter; REQUIRES one.
  bool has_steady() const { return num_steady_ > 0; }
  int64_t next_finish_iteration() const {
    return by_finish_.top().finish_iteration_;
  }

  // ---- Blocks, before a plan is committed ----

  // Blocks that decode_all takes in the next iteration.
  int64_t DecodeAllNeed() const;
  // Blocks that the steady requests take in decode iteration `iteration`, if
  // nothing else changes.
  int64_t SteadyNeedAt(int64_t iteration) const {
    return static_cast<int64_t>(
        boundary_[BoundaryClass(iteration)].requests.size());
  }
  // Whether decode_all in the next iteration takes a block for this request.
  bool DecodeNeedsBlock(const Request& request) const;
  // Blocks that computing `num_tokens` more takes, of a running request.
  int64_t GrowthNeed(const Request& request, int64_t num_tokens) const;
  // Blocks that admitting a waiting request takes, prefix hits that sit among
  // the free blocks included.
  int64_t AdmissionNeed(const Request& request, int64_t num_tokens,
                        Reservation reservation) const;
  // Tokens of a waiting request that would be found in the cache.
  int64_t PrefixHitTokens(const Request& request) const;
  // Blocks on the host that a swapped request takes on the device.
  int64_t SwapInNeed(const Request& request) const;

  // Why a request can never be served, or nothing.
  std::optional<std::string> WhyNever(const RequestSpec& spec) const;

  // ---- Changes ----

  // Adds a request to the waiting queue, at its place by (key, id).
  Request& Add(RequestSpec spec, int64_t waiting_key);

  // FailedPrecondition names the request and the rule that the plan breaks.
  // `token_budget`: see Policy::TokenBudget.
  absl::Status Validate(const IterationPlan& plan, int64_t token_budget) const;

  // Carries out a valid plan, its rejections excepted (see Remove), up to the
  // point where the batch can run.
  void Commit(const IterationPlan& plan, CommittedBatch& batch);

  // Blocks for the next decode_all iteration alone: Commit of such a plan.
  // REQUIRES: no loose decode; DecodeAllNeed() blocks are free.
  void CommitDecodeAll() {
    const BoundaryGroup& group = boundary_[BoundaryClass(decode_iterations_)];
    if (!group.sequences.empty()) GrowGroup(group, 1);
  }

  // The outcome of a decode_all iteration: every steady request has one more
  // token.  Requests that have all their tokens are still there: see
  // NextFinished.
  void AdvanceSteady() {
    kv_tokens_squared_ += 2 * kv_tokens_ + num_steady_;
    kv_tokens_ += num_steady_;
    ++decode_iterations_;
    if (prefix_caching_) RegisterFilledBlocks();
  }

  // How many coming decode_all iterations, at most `most`, can be followed by
  // another one with the blocks that are free now.
  int64_t SteadyIterationsThatFit(int64_t most) const;

  // AdvanceSteady, then CommitDecodeAll, as often as `count` says.  Where
  // blocks have no content that can be found again, requests are given theirs
  // one after the other, so that which block is whose may differ.
  // REQUIRES: as many fit.
  void AdvanceSteady(int64_t count);

  // A steady request that has all its tokens, or nullptr.
  Request* NextFinished() {
    if (num_steady_ == 0) return nullptr;
    Request& first = by_finish_.top();
    return first.finish_iteration_ < decode_iterations_ ? &first : nullptr;
  }

  // The outcome of a piece.  Returns whether the request has all its tokens.
  bool AdvancePiece(const CommittedPiece& piece);

  // Ends a request: releases what it holds and forgets it.
  void Remove(Request& request);

  // The same in two steps, for an engine that plans an iteration before the one
  // before has ended: the request is forgotten, but what it holds is released
  // by ReleaseRetired only.
  void Retire(Request& request);
  // Returns whether there was anything to release.
  bool ReleaseRetired();

  absl::Status CheckInvariants() const;

 private:
  // Steady requests that need a block in the same iterations.
  struct BoundaryGroup {
    std::vector<Request*> requests;
    std::vector<cache::SequenceId> sequences;
  };

  EngineState(const Options& options,
              std::unique_ptr<cache::KvCacheManager> cache);

  size_t BoundaryClass(int64_t iteration) const {
    // The usual block sizes are powers of two, and a division costs as much
    // as the rest of a stepped iteration's bookkeeping.
    return static_cast<size_t>(block_mask_ != 0 ? iteration & block_mask_
                                                : iteration % block_size_);
  }
  // Tokens whose blocks a waiting request is given on admission.
  int64_t AdmittedTokens(const Request& request, int64_t computed_after,
                         Reservation reservation) const;
  const cache::PrefixHit& FindPrefix(const Request& request) const;
  // EngineState owns every request, so it may change those it shows as const.
  static Request& Mutable(const Request& request) {
    return const_cast<Request&>(request);
  }

  void EnqueueWaiting(Request& request, bool from_front);
  void Preempt(Request& request, PreemptMode mode, CommittedBatch& batch);
  void Admit(const IterationPlan::Piece& piece, CommittedPiece& committed);
  void SwapIn(Request& request, CommittedBatch& batch);
  void GrowForPiece(const IterationPlan::Piece& piece,
                    CommittedPiece& committed);
  void JoinSteady(Request& request);
  void LeaveSteady(Request& request);
  void JoinBoundary(Request& request);
  void LeaveBoundary(Request& request);
  // Takes a running request out of running and of its phase's list.
  void LeaveRunning(Request& request);
  void GrowGroup(const BoundaryGroup& group, int64_t num_blocks);
  void RegisterFilledBlocks();
  void RegisterComputed(Request& request);
  absl::Status ValidatePiece(const IterationPlan& plan,
                             const IterationPlan::Piece& piece, int64_t& blocks,
                             int64_t& seqs) const;

  const Limits limits_;
  const bool track_longest_;
  const bool prefix_caching_;
  const int64_t block_size_;
  // block_size_ - 1 where that is a power of two above 1, 0 elsewhere.
  const int64_t block_mask_;
  std::unique_ptr<cache::KvCacheManager> cache_;

  // Requests never move; the memory of those that are done is used again.
  std::deque<Request> storage_;
  std::vector<Request*> unused_;

  RequestQueue waiting_;
  RequestQueue running_;
  RequestQueue swapped_;
  PhaseList prefilling_;
  PhaseList loose_;

  int64_t decode_iterations_ = 0;
  int64_t num_steady_ = 0;
  int64_t kv_tokens_ = 0;
  int64_t kv_tokens_squared_ = 0;
  IndexedHeap<Request, FinishOrder> by_finish_;
  IndexedHeap<Request, LengthOrder> by_length_;
  std::vector<BoundaryGroup> boundary_;
  std::vector<Request*> fresh_;
  std::vector<cache::SequenceId> retired_;
  // For Validate: requests mentioned by the plan carry this mark.
  mutable int64_t plan_mark_ = 0;
};

}  // namespace interleave::scheduler

#endif  // SCHEDULER_ENGINE_STATE_H_
