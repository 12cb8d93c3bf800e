#include "sim/replica.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/sim_time.h"
#include "base/status_macros.h"
#include "scheduler/engine_state.h"
#include "scheduler/engine_view.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/policy.h"
#include "scheduler/request.h"

namespace interleave::sim {

using scheduler::CommittedPiece;
using scheduler::EngineState;
using scheduler::EngineView;
using scheduler::IterationPlan;
using scheduler::Phase;
using scheduler::Request;
using scheduler::RequestSpec;

namespace {

// Plans in a row that may preempt without computing anything.
constexpr int kMaxIdlePlans = 1000;
constexpr size_t kMinPruneSize = 4096;

RequestRecord RecordOf(const RequestSpec& spec) {
  RequestRecord record;
  record.id = spec.id;
  record.tenant = spec.tenant;
  record.priority = spec.priority;
  record.prompt_tokens = spec.prompt_tokens;
  record.output_tokens = spec.output_tokens;
  record.arrival = spec.arrival;
  record.slo = spec.slo;
  return record;
}

// Splits what the prompt chunks added by the share of their tokens that had
// been computed before.
GapParts SplitPrefill(SimDuration prefill, int64_t recomputed, int64_t tokens) {
  GapParts parts;
  if (recomputed > 0) {
    parts.recomputation = SimDuration::Nanos(static_cast<int64_t>(
        static_cast<double>(prefill.nanos()) *
        (static_cast<double>(recomputed) / static_cast<double>(tokens))));
  }
  parts.prefill = prefill - parts.recomputation;
  return parts;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Replica>> Replica::Create(
    const Options& options, std::unique_ptr<scheduler::Policy> policy,
    std::unique_ptr<Executor> executor, Metrics* metrics, Workload* workload,
    RecordSink* sink) {
  EngineState::Options engine = options.engine;
  engine.track_longest = executor->NeedsKvTokensMax();
  ASSIGN_OR_RETURN(std::unique_ptr<EngineState> state,
                   EngineState::Create(engine));
  return std::unique_ptr<Replica>(
      new Replica(options, std::move(state), std::move(policy),
                  std::move(executor), metrics, workload, sink));
}

Replica::Replica(const Options& options, std::unique_ptr<EngineState> state,
                 std::unique_ptr<scheduler::Policy> policy,
                 std::unique_ptr<Executor> executor, Metrics* metrics,
                 Workload* workload, RecordSink* sink)
    : options_(options),
      state_(std::move(state)),
      policy_(std::move(policy)),
      executor_(std::move(executor)),
      metrics_(*metrics),
      workload_(*workload),
      sink_(sink),
      token_budget_(policy_->TokenBudget(options.engine.limits)),
      needs_longest_(executor_->NeedsKvTokensMax()),
      fast_forward_(options.fast_forward && executor_->CanForesee()),
      history_prune_size_(kMinPruneSize) {}

void Replica::Deliver(RequestSpec spec) {
  if (options_.async_scheduling && busy_) {
    arrived_.push_back(std::move(spec));
  } else {
    Enqueue(std::move(spec));
  }
}

void Replica::EnqueueArrived(SimTime planned) {
  while (!arrived_.empty() && arrived_.front().arrival <= planned) {
    Enqueue(std::move(arrived_.front()));
    arrived_.pop_front();
  }
}

void Replica::Enqueue(RequestSpec spec) {
  if (std::optional<std::string> reason = state_->WhyNever(spec)) {
    RequestRecord record = RecordOf(spec);
    record.rejection = *std::move(reason);
    metrics_.AddRequest(record);
    if (sink_ != nullptr) sink_->OnRequest(record);
    workload_.OnRequestDone(spec.id, spec.arrival);
    return;
  }
  const int64_t key = policy_->WaitingKey(spec);
  const Request& request = state_->Add(std::move(spec), key);
  policy_->OnArrival(request);
  if (plan_.repeat() != scheduler::Repeat::kThroughArrivals) {
    repeatable_ = false;
  }
}

// ---- Starting an iteration ----

absl::StatusOr<SimTime> Replica::Start(SimTime now, SimTime horizon) {
  DCHECK(!busy_);
  // The iteration before began at start_, and this one was planned then.
  EnqueueArrived(start_);
  if (!StartRepeated(now)) {
    ASSIGN_OR_RETURN(bool anything, PlanAndCommit(now));
    if (!anything && (state_->ReleaseRetired() || !arrived_.empty())) {
      // Nothing is in flight to plan ahead of.
      EnqueueArrived(now);
      ASSIGN_OR_RETURN(anything, PlanAndCommit(now));
    }
    if (!anything) {
      if (state_->num_requests() > 0 && horizon == SimTime::Infinity()) {
        return Annotate(absl::FailedPreconditionError(
            absl::StrCat("it runs nothing, though ", state_->waiting().size(),
                         " requests wait, ", state_->running().size(),
                         " run and ", state_->swapped().size(),
                         " are swapped out, and nothing else will happen")));
      }
      return SimTime::Infinity();
    }
    RETURN_IF_ERROR(RunBatch(now));
  }
  busy_ = true;
  if (state_->ReleaseRetired()) repeatable_ = false;
  if (repeatable_ && arrived_.empty()) RunAhead(horizon);
  return end_;
}

absl::StatusOr<bool> Replica::PlanAndCommit(SimTime now) {
  for (int attempt = 0; attempt < kMaxIdlePlans; ++attempt) {
    plan_.Clear();
    policy_->Plan(EngineView(*state_, now, this), plan_);
    if (plan_.empty()) return false;
    if (absl::Status status = state_->Validate(plan_, token_budget_);
        !status.ok()) {
      return Annotate(status);
    }
    CarryOutRejections(now);
    for (const IterationPlan::Preemption& preemption : plan_.preemptions()) {
      FoldHistory(const_cast<Request&>(*preemption.request));
    }
    for (const IterationPlan::Piece& piece : plan_.pieces()) {
      if (piece.request->phase() == Phase::kDecode) {
        FoldHistory(const_cast<Request&>(*piece.request));
      }
    }
    state_->Commit(plan_, committed_);
    NoteCommitted(now);
    BuildShape();
    if (shape_.num_tokens() > 0) return true;
    if (plan_.preemptions().empty() && plan_.rejections().empty() &&
        plan_.pieces().empty()) {
      return false;
    }
    // Preempting, rejecting or swapping alone takes no time: ask again.
  }
  return Annotate(absl::FailedPreconditionError(
      absl::StrCat(kMaxIdlePlans, " plans in a row compute nothing")));
}

absl::Status Replica::Annotate(const absl::Status& status) const {
  return absl::Status(
      status.code(),
      absl::StrCat("policy \"", options_.policy_name, "\", iteration ",
                   iteration_, ": ", status.message()));
}

void Replica::CarryOutRejections(SimTime now) {
  for (const IterationPlan::Rejection& rejection : plan_.rejections()) {
    Request& request = const_cast<Request&>(*rejection.request);
    RequestRecord record = RecordOf(request.spec());
    record.rejection = rejection.reason;
    metrics_.AddRequest(record);
    if (sink_ != nullptr) sink_->OnRequest(record);
    Hash(static_cast<uint64_t>(request.id()) ^ 0x1);
    policy_->OnDone(request);
    state_->Remove(request);
    workload_.OnRequestDone(record.id, now);
  }
}

void Replica::FoldHistory(Request& request) {
  // A fresh one has no part in the history yet, and notes its own last token.
  if (!request.steady() || request.fresh()) return;
  scheduler::RequestHistory& history = request.mutable_history();
  history.longest_gap =
      std::max(history.longest_gap, history_.Longest(history.history_begin));
  history.last_token = last_decode_end_;
}

void Replica::NoteCommitted(SimTime now) {
  recomputed_tokens_ = 0;
  for (const CommittedPiece& piece : committed_.pieces) {
    recomputed_tokens_ += piece.recomputed_tokens;
    if (!piece.admitted) continue;
    scheduler::RequestHistory& history = piece.request->mutable_history();
    if (piece.request->preemptions() == 0) {
      history.first_scheduled = now;
      history.prefix_hit_tokens = piece.prefix_hit_tokens;
    }
  }
  for (const IterationPlan::Preemption& preemption : plan_.preemptions()) {
    Hash(static_cast<uint64_t>(preemption.request->id()) ^ 0x2);
    policy_->OnPreempted(*preemption.request);
  }
}

void Replica::FillSteady(DecodeGroup& group) const {
  group.count = state_->num_steady();
  group.kv_tokens = state_->steady_kv_tokens();
  group.kv_tokens_squared = state_->steady_kv_tokens_squared();
  group.kv_tokens_max = needs_longest_ ? state_->longest_steady_kv_tokens() : 0;
}

void Replica::BuildShape() {
  chunks_.clear();
  shape_ = BatchShape();
  if (committed_.decode_all) FillSteady(shape_.decode);
  for (const CommittedPiece& piece : committed_.pieces) {
    if (!piece.decode) {
      chunks_.push_back({piece.num_tokens, piece.context_tokens});
      shape_.prefill_tokens += piece.num_tokens;
      continue;
    }
    shape_.decode.Add(piece.context_tokens);
  }
  shape_.prefill = chunks_;
  shape_.swapped_in_blocks = committed_.swapped_in_blocks;
  shape_.swapped_out_blocks = committed_.swapped_out_blocks;
}

absl::Status Replica::RunBatch(SimTime now) {
  timing_ = IterationTiming();
  const SimDuration idle = iteration_ > 0
                               ? std::max(now - end_, SimDuration::Zero())
                               : SimDuration::Zero();
  RETURN_IF_ERROR(executor_->Run({shape_, idle, committed_, *state_}, timing_));
  start_ = now;
  end_ = now + timing_.device + timing_.host;
  repeatable_ = MayRepeat();
  return absl::OkStatus();
}

bool Replica::MayRepeat() const {
  return fast_forward_ && !HitsMayChange() &&
         plan_.repeat() != scheduler::Repeat::kNo && plan_.decode_all() &&
         plan_.pieces().empty() && plan_.preemptions().empty() &&
         plan_.rejections().empty();
}

// Decodes evict and register cached blocks, so that what a waiting request
// would find, and with that whether its first chunk fits, is never settled.
bool Replica::HitsMayChange() const {
  return options_.engine.cache.enable_prefix_caching &&
         !state_->waiting().empty();
}

// ---- Carrying out a plan again ----

bool Replica::StartRepeated(SimTime now) {
  // Blocks may have run short, and who stays is the policy's to decide.
  if (!repeatable_ || HitsMayChange() || state_->num_steady() == 0 ||
      state_->SteadyNeedAt(state_->decode_iterations()) >
          state_->cache().free_blocks()) {
    repeatable_ = false;
    return false;
  }
  shape_ = BatchShape();
  FillSteady(shape_.decode);
  executor_->Foresee(shape_.decode, absl::MakeSpan(foreseen_.data(), 1));
  state_->CommitDecodeAll();
  committed_.Clear();
  committed_.decode_all = true;
  recomputed_tokens_ = 0;
  timing_.host = executor_->HostTime(shape_.decode.count);
  StartForeseen(now, 1);
  return true;
}

void Replica::RunAhead(SimTime horizon) {
  if (!MayGoOn(horizon)) return;
  // The first one may have fresh requests, or follow other iterations.
  CompleteDecodes();
  RecordIteration();
  // Most stretches are short, so that looking far ahead would be wasted.
  size_t lookahead = kFirstLookahead;
  StartNextDecodes();
  while (MayGoOn(horizon)) {
    if (sink_ == nullptr) {
      RunStretch(horizon, lookahead);
      lookahead = std::min(kLookahead, 8 * lookahead);
    } else {
      CompleteDecodes();
      RecordIteration();
      StartNextDecodes();
    }
  }
}

bool Replica::MayGoOn(SimTime horizon) const {
  return end_ < horizon &&
         state_->decode_iterations() < state_->next_finish_iteration() &&
         state_->SteadyNeedAt(state_->decode_iterations() + 1) <=
             state_->cache().free_blocks();
}

void Replica::StartNextDecodes() {
  state_->CommitDecodeAll();
  FillSteady(shape_.decode);
  executor_->Foresee(shape_.decode, absl::MakeSpan(foreseen_.data(), 1));
  StartForeseen(end_, 1);
}

void Replica::StartForeseen(SimTime now, size_t count) {
  executor_->OnForeseen(shape_.decode.count,
                        absl::MakeConstSpan(foreseen_.data(), count));
  timing_.device = timing_.predicted = timing_.decodes_alone =
      foreseen_[count - 1];
  start_ = now;
  end_ = now + timing_.device + timing_.host;
}

void Replica::RunStretch(SimTime horizon, size_t lookahead) {
  EngineState& state = *state_;
  const int64_t first = state.decode_iterations();
  const size_t limit = static_cast<size_t>(state.SteadyIterationsThatFit(
      std::min<int64_t>(static_cast<int64_t>(lookahead),
                        state.next_finish_iteration() - first)));
  DecodeGroup next = shape_.decode;
  next.Advance();
  executor_->Foresee(next, absl::MakeSpan(foreseen_.data(), limit));

  Metrics::DecodeStretch stretch;
  stretch.host = timing_.host;
  stretch.decodes = shape_.decode.count;
  stretch.kv_tokens = shape_.decode.kv_tokens;
  stretch.running = state.running().size();
  SimDuration length = end_ - start_;
  SimDuration longest;
  SimTime end = end_;
  uint64_t hash = fingerprint_;
  size_t count = 0;
  do {
    hash = Mix(hash, static_cast<uint64_t>(end.nanos()));
    lengths_[count] = length;
    starts_[count] = end - length;
    longest = std::max(longest, length);
    length = foreseen_[count++] + stretch.host;
    end += length;
  } while (count < limit && end < horizon);
  fingerprint_ = hash;
  iteration_ += static_cast<int64_t>(count);
  last_decode_end_ = end - length;

  stretch.lengths = absl::MakeConstSpan(lengths_.data(), count);
  stretch.total = last_decode_end_ - start_;
  stretch.block_time =
      BlockTime(absl::MakeConstSpan(starts_.data(), count), last_decode_end_);
  metrics_.AddDecodeStretch(stretch);
  state.AdvanceSteady(static_cast<int64_t>(count));
  // Nobody joins or leaves in between, so the longest gap stands for all.
  history_.Push(state.decode_iterations() - 1, longest);
  FillSteady(shape_.decode);
  StartForeseen(last_decode_end_, count);
}

NanosSum Replica::BlockTime(absl::Span<const SimTime> starts,
                            SimTime end) const {
  const auto time_from = [&](size_t i) {
    return static_cast<NanosSum>((end - starts[i]).nanos());
  };
  NanosSum sum = time_from(0) * state_->cache().used_blocks();
  const size_t block_size = static_cast<size_t>(state_->cache().block_size());
  for (size_t i = 1; i < std::min(starts.size(), block_size + 1); ++i) {
    const int64_t taken = state_->SteadyNeedAt(state_->decode_iterations() +
                                               static_cast<int64_t>(i));
    if (taken == 0) continue;
    // The same requests take their next block a block size later.
    for (size_t j = i; j < starts.size(); j += block_size) {
      sum += time_from(j) * taken;
    }
  }
  return sum;
}

// ---- Completing an iteration ----

void Replica::Complete() {
  DCHECK(busy_);
  busy_ = false;
  if (committed_.decode_all && shape_.decode.count > 0) CompleteDecodes();
  CompletePieces();
  RecordIteration();
  EndFinished();
}

GapParts Replica::PartsOfIteration() const {
  const SimDuration length = end_ - start_;
  if (shape_.prefill_tokens == 0) {
    GapParts parts;
    parts.own_work = length;
    return parts;
  }
  // A measured table may claim that a mixed batch is faster than its decodes.
  const SimDuration own =
      std::min(timing_.decodes_alone + timing_.host, length);
  GapParts parts =
      SplitPrefill(length - own, recomputed_tokens_, shape_.prefill_tokens);
  parts.own_work = own;
  return parts;
}

void Replica::CompleteDecodes() {
  const int64_t iteration = state_->decode_iterations();
  GapParts parts = PartsOfIteration();
  int64_t shared = state_->num_steady();
  for (Request* request : state_->fresh()) {
    scheduler::RequestHistory& history = request->mutable_history();
    history.history_begin = iteration;
    if (history.last_token == last_decode_end_) continue;
    // It decoded last at a time of its own.
    --shared;
    history.history_begin = iteration + 1;
    GapParts own = parts;
    own.waiting = start_ - history.last_token;
    history.longest_gap = std::max(history.longest_gap, own.total());
    metrics_.AddGap(own, 1);
  }
  state_->ClearFresh();
  if (shared > 0) {
    parts.waiting = start_ - last_decode_end_;
    metrics_.AddGap(parts, shared);
    history_.Push(iteration, parts.total());
    if (history_.size() > history_prune_size_) PruneHistory();
  }
  last_decode_end_ = end_;
  state_->AdvanceSteady();
}

void Replica::PruneHistory() {
  int64_t oldest = state_->decode_iterations();
  for (const Request& request : state_->running()) {
    if (request.steady()) {
      oldest = std::min(oldest, request.history().history_begin);
    }
  }
  history_.DropBefore(oldest);
  history_prune_size_ = std::max(kMinPruneSize, 2 * history_.size());
}

void Replica::CompletePieces() {
  if (committed_.pieces.empty()) return;
  const GapParts parts = PartsOfIteration();
  for (const CommittedPiece& piece : committed_.pieces) {
    Request& request = *piece.request;
    scheduler::RequestHistory& history = request.mutable_history();
    if (!piece.decode) {
      metrics_.AddPrefillPairs(piece.num_tokens, piece.context_tokens);
    }
    if (piece.recomputed_tokens > 0) {
      history.recomputed_tokens += piece.recomputed_tokens;
      history.recomputing += end_ - start_;
    }
    if (piece.samples) {
      if (request.produced() == 0) {
        history.first_token = end_;
      } else if (piece.decode) {
        AddPieceGap(request, parts);
      } else {
        GapParts resumed;
        resumed.recomputation = history.recomputing;
        resumed.waiting = end_ - history.last_token - history.recomputing;
        history.longest_gap = std::max(history.longest_gap, resumed.total());
        metrics_.AddGap(resumed, 1);
      }
      history.recomputing = SimDuration::Zero();
      history.last_token = end_;
    }
    if (state_->AdvancePiece(piece)) End(request);
  }
}

void Replica::AddPieceGap(Request& request, const GapParts& iteration) {
  scheduler::RequestHistory& history = request.mutable_history();
  GapParts parts = iteration;
  parts.waiting = start_ - history.last_token;
  history.longest_gap = std::max(history.longest_gap, parts.total());
  metrics_.AddGap(parts, 1);
}

void Replica::EndFinished() {
  while (Request* request = state_->NextFinished()) {
    FoldHistory(*request);
    End(*request);
  }
}

void Replica::End(Request& request) {
  repeatable_ = false;
  const scheduler::RequestHistory& history = request.history();
  RequestRecord record = RecordOf(request.spec());
  record.first_scheduled = history.first_scheduled;
  record.first_token = history.first_token;
  record.last_token = history.last_token;
  record.longest_gap = history.longest_gap;
  record.preemptions = request.preemptions();
  record.prefix_hit_tokens = history.prefix_hit_tokens;
  record.recomputed_tokens = history.recomputed_tokens;
  metrics_.AddRequest(record);
  if (sink_ != nullptr) sink_->OnRequest(record);
  Hash(static_cast<uint64_t>(request.id()) ^ 0x3);
  Hash(static_cast<uint64_t>(record.first_token.nanos()));
  policy_->OnDone(request);
  executor_->OnRequestDone(request);
  if (options_.async_scheduling) {
    state_->Retire(request);
  } else {
    state_->Remove(request);
  }
  workload_.OnRequestDone(record.id, end_);
}

void Replica::RecordIteration() {
  Hash(static_cast<uint64_t>(end_.nanos()));
  IterationRecord record;
  record.index = iteration_++;
  record.replica = options_.index;
  record.start = start_;
  record.end = end_;
  record.device = timing_.device;
  record.host = timing_.host;
  record.predicted = timing_.predicted;
  record.prefill_chunks = static_cast<int64_t>(shape_.prefill.size());
  record.prefill_tokens = shape_.prefill_tokens;
  for (const PrefillChunk& chunk : shape_.prefill) {
    record.prefill_context_tokens += chunk.context_tokens;
  }
  record.decodes = shape_.decode.count;
  record.decode_kv_tokens = shape_.decode.kv_tokens;
  record.recomputed_tokens = recomputed_tokens_;
  record.preemptions = committed_.num_preemptions;
  record.waiting = state_->waiting().size();
  record.running = state_->running().size();
  record.used_blocks =
      state_->cache().num_blocks() - state_->cache().free_blocks();
  metrics_.AddIteration(record);
  if (sink_ != nullptr) sink_->OnIteration(record);
}

// ---- Predicting ----

SimDuration Replica::Predict(const IterationPlan& plan) const {
  std::vector<PrefillChunk> chunks;
  BatchShape shape;
  if (plan.decode_all()) {
    FillSteady(shape.decode);
    for (const Request& request : state_->loose()) {
      shape.decode.Add(request.computed());
    }
  }
  for (const IterationPlan::Piece& piece : plan.pieces()) {
    const Request& request = *piece.request;
    int64_t context = request.computed();
    if (request.phase() == Phase::kWaiting) {
      context = state_->PrefixHitTokens(request);
    }
    if (request.phase() == Phase::kDecode) {
      shape.decode.Add(context);
    } else if (piece.num_tokens > 0) {
      chunks.push_back({piece.num_tokens, static_cast<int32_t>(context)});
      shape.prefill_tokens += piece.num_tokens;
    }
  }
  shape.prefill = chunks;
  if (shape.num_tokens() == 0) return SimDuration::Zero();
  return executor_->Predict(shape) + executor_->HostTime(shape.num_sequences());
}

}  // namespace interleave::sim
