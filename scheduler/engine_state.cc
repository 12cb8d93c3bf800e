#include "scheduler/engine_state.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "cache/kv_cache_manager.h"

namespace interleave::scheduler {
namespace {

int64_t MaskOf(int64_t block_size) {
  const bool power_of_two = (block_size & (block_size - 1)) == 0;
  return power_of_two ? block_size - 1 : 0;
}

std::string Name(const Request& request) {
  return absl::StrCat("request ", request.id(), " (",
                      PhaseName(request.phase()), ")");
}

absl::Status Broken(const Request& request, absl::string_view rule) {
  return absl::FailedPreconditionError(
      absl::StrCat("illegal plan: ", Name(request), " ", rule));
}

}  // namespace

absl::StatusOr<std::unique_ptr<EngineState>> EngineState::Create(
    const Options& options) {
  const Limits& limits = options.limits;
  if (limits.max_num_seqs < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_num_seqs is ", limits.max_num_seqs, "; it must be at least 1"));
  }
  if (limits.max_num_batched_tokens < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_num_batched_tokens is ",
                     limits.max_num_batched_tokens, "; it must be at least 1"));
  }
  if (limits.max_model_len < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_model_len is ", limits.max_model_len,
        "; it must be at least 2 (a prompt token and a generated one)"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<cache::KvCacheManager> cache,
                   cache::KvCacheManager::Create(options.cache));
  return std::unique_ptr<EngineState>(
      new EngineState(options, std::move(cache)));
}

EngineState::EngineState(const Options& options,
                         std::unique_ptr<cache::KvCacheManager> cache)
    : limits_(options.limits),
      track_longest_(options.track_longest),
      prefix_caching_(options.cache.enable_prefix_caching),
      block_size_(options.cache.block_size),
      block_mask_(MaskOf(options.cache.block_size)),
      cache_(std::move(cache)),
      boundary_(static_cast<size_t>(options.cache.block_size)) {}

// ---- Blocks, before a plan is committed ----

int64_t EngineState::DecodeAllNeed() const {
  int64_t need = SteadyNeedAt(decode_iterations_);
  for (const Request& request : loose_) need += GrowthNeed(request, 1);
  return need;
}

bool EngineState::DecodeNeedsBlock(const Request& request) const {
  return request.phase() == Phase::kDecode && GrowthNeed(request, 1) > 0;
}

int64_t EngineState::GrowthNeed(const Request& request,
                                int64_t num_tokens) const {
  const int64_t blocks = cache_->BlocksFor(request.computed() + num_tokens);
  return std::max<int64_t>(0,
                           blocks - cache_->num_blocks_of(request.sequence()));
}

int64_t EngineState::AdmittedTokens(const Request& request,
                                    int64_t computed_after,
                                    Reservation reservation) const {
  switch (reservation) {
    case Reservation::kChunk:
      return computed_after;
    case Reservation::kPrompt:
      return request.num_tokens();
    case Reservation::kCompletion:
      return std::max<int64_t>(request.num_tokens(),
                               request.max_cached_tokens());
  }
  return computed_after;
}

int64_t EngineState::AdmissionNeed(const Request& request, int64_t num_tokens,
                                   Reservation reservation) const {
  if (!prefix_caching_) {
    return cache_->BlocksFor(AdmittedTokens(request, num_tokens, reservation));
  }
  const cache::PrefixHit& hit = FindPrefix(request);
  return cache_->BlocksNeeded(
      hit, AdmittedTokens(request, hit.num_tokens + num_tokens, reservation));
}

const cache::PrefixHit& EngineState::FindPrefix(const Request& request) const {
  Request& mutable_request = Mutable(request);
  const int64_t version = cache_->index_version();
  if (mutable_request.hit_version_ != version) {
    mutable_request.hit_ =
        cache_->FindPrefix(request.tokens(), request.num_tokens(),
                           /*extra_keys=*/{}, mutable_request.block_hashes_);
    mutable_request.hit_version_ = version;
  }
  return request.hit_;
}

int64_t EngineState::PrefixHitTokens(const Request& request) const {
  return prefix_caching_ ? FindPrefix(request).num_tokens : 0;
}

int64_t EngineState::SwapInNeed(const Request& request) const {
  return cache_->SwapInNeed(request.sequence());
}

std::optional<std::string> EngineState::WhyNever(
    const RequestSpec& spec) const {
  const int64_t total =
      int64_t{spec.prompt_tokens} + std::max(1, spec.max_output_tokens);
  if (total > limits_.max_model_len) {
    return absl::StrCat("exceeds_max_model_len: ", spec.prompt_tokens,
                        " prompt and up to ", spec.max_output_tokens,
                        " generated tokens, max_model_len is ",
                        limits_.max_model_len);
  }
  const int64_t blocks = cache_->BlocksFor(total - 1);
  if (blocks > cache_->num_blocks()) {
    return absl::StrCat("exceeds_kv_cache: it takes ", blocks, " blocks of ",
                        block_size_, ", the cache has ", cache_->num_blocks());
  }
  return std::nullopt;
}

// ---- Changes ----

Request& EngineState::Add(RequestSpec spec, int64_t waiting_key) {
  Request* request = nullptr;
  if (unused_.empty()) {
    request = &storage_.emplace_back(std::move(spec), &decode_iterations_);
  } else {
    request = unused_.back();
    unused_.pop_back();
    request->~Request();
    new (request) Request(std::move(spec), &decode_iterations_);
  }
  request->waiting_key_ = waiting_key;
  request->sequence_ = cache_->CreateSequence();
  EnqueueWaiting(*request, /*from_front=*/false);
  return *request;
}

void EngineState::EnqueueWaiting(Request& request, bool from_front) {
  const auto before = [](const Request& a, const Request& b) {
    return a.waiting_key_ != b.waiting_key_ ? a.waiting_key_ < b.waiting_key_
                                            : a.id() < b.id();
  };
  request.phase_ = Phase::kWaiting;
  // Arrivals mostly belong at the end and preempted requests at the front.
  Request* position = nullptr;
  if (from_front) {
    for (Request& other : waiting_) {
      if (before(request, other)) break;
      position = &other;
    }
  } else {
    position = waiting_.back();
    while (position != nullptr && before(request, *position)) {
      position = RequestQueue::Previous(*position);
    }
  }
  waiting_.InsertAfter(position, request);
}

absl::Status EngineState::Validate(const IterationPlan& plan,
                                   int64_t token_budget) const {
  const int64_t first_mark = plan_mark_ + 1;
  plan_mark_ += 1 + static_cast<int64_t>(plan.pieces().size() +
                                         plan.preemptions().size() +
                                         plan.rejections().size());
  const auto mark = [&](const Request& request) {
    const bool repeated = request.mark >= first_mark;
    request.mark = first_mark;
    return repeated ? Broken(request, "is mentioned twice") : absl::OkStatus();
  };

  for (const IterationPlan::Rejection& rejection : plan.rejections()) {
    RETURN_IF_ERROR(mark(*rejection.request));
    if (rejection.request->phase() != Phase::kWaiting) {
      return Broken(*rejection.request, "is rejected, but it is not waiting");
    }
  }

  int64_t blocks = cache_->free_blocks();
  int64_t seqs = limits_.max_num_seqs - running_.size();
  int64_t num_decodes = num_decoding();
  int64_t decode_need = plan.decode_all() ? DecodeAllNeed() : 0;
  int64_t host_blocks = 0;
  for (const IterationPlan::Preemption& preemption : plan.preemptions()) {
    const Request& request = *preemption.request;
    RETURN_IF_ERROR(mark(request));
    if (!request.running()) {
      return Broken(request, "is preempted, but it is not running");
    }
    blocks += cache_->BlocksFreedBy(request.sequence());
    ++seqs;
    if (request.phase() == Phase::kDecode) {
      --num_decodes;
      if (plan.decode_all() && DecodeNeedsBlock(request)) --decode_need;
    }
    if (preemption.mode == PreemptMode::kSwap) {
      host_blocks += cache_->num_blocks_of(request.sequence());
      if (host_blocks > cache_->free_host_blocks()) {
        return Broken(request, "is swapped out, but the host tier has no room");
      }
    }
  }

  blocks -= decode_need;
  int64_t tokens = plan.decode_all() ? num_decodes : 0;
  for (const IterationPlan::Piece& piece : plan.pieces()) {
    RETURN_IF_ERROR(mark(*piece.request));
    RETURN_IF_ERROR(ValidatePiece(plan, piece, blocks, seqs));
    const bool decodes_at_once = plan.decode_all() &&
                                 piece.request->phase() == Phase::kSwapped &&
                                 piece.request->swapped_from_ == Phase::kDecode;
    tokens += decodes_at_once ? 1 : piece.num_tokens;
  }
  if (blocks < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("illegal plan: it takes ", -blocks,
                     " more cache blocks than there will be (",
                     cache_->free_blocks(), " are free)"));
  }
  if (seqs < 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "illegal plan: ", limits_.max_num_seqs - seqs,
        " requests would run, max_num_seqs is ", limits_.max_num_seqs));
  }
  if (tokens > token_budget) {
    return absl::FailedPreconditionError(
        absl::StrCat("illegal plan: it computes ", tokens,
                     " tokens, the policy's budget is ", token_budget));
  }
  return absl::OkStatus();
}

absl::Status EngineState::ValidatePiece(const IterationPlan& plan,
                                        const IterationPlan::Piece& piece,
                                        int64_t& blocks, int64_t& seqs) const {
  const Request& request = *piece.request;
  if (request.phase() == Phase::kSwapped) {
    if (piece.num_tokens != 0) {
      return Broken(request, "is run, but it has to be swapped in first");
    }
    blocks -= SwapInNeed(request);
    if (plan.decode_all() && request.swapped_from_ == Phase::kDecode &&
        !request.reserved_ && request.computed() % block_size_ == 0) {
      --blocks;
    }
    --seqs;
    return absl::OkStatus();
  }
  if (piece.num_tokens < 1) {
    return Broken(request, absl::StrCat("is given ", piece.num_tokens,
                                        " tokens; it must be at least 1"));
  }
  switch (request.phase()) {
    case Phase::kWaiting: {
      const int64_t most = request.num_tokens() - PrefixHitTokens(request);
      if (piece.num_tokens > most) {
        return Broken(request, absl::StrCat("is given ", piece.num_tokens,
                                            " tokens, it has ", most, " left"));
      }
      blocks -= AdmissionNeed(request, piece.num_tokens, piece.reservation);
      --seqs;
      return absl::OkStatus();
    }
    case Phase::kDecode:
      if (plan.decode_all()) {
        return Broken(request, "is run besides decode_all");
      }
      break;
    case Phase::kPrefill:
      break;
    default:
      return Broken(request, "is run, but it is neither waiting nor running");
  }
  if (piece.num_tokens > request.remaining()) {
    return Broken(
        request, absl::StrCat("is given ", piece.num_tokens, " tokens, it has ",
                              request.remaining(), " left"));
  }
  blocks -= GrowthNeed(request, piece.num_tokens);
  return absl::OkStatus();
}

void EngineState::Commit(const IterationPlan& plan, CommittedBatch& batch) {
  batch.Clear();
  for (const IterationPlan::Preemption& preemption : plan.preemptions()) {
    Preempt(Mutable(*preemption.request), preemption.mode, batch);
  }
  // Found prefixes are taken before anything grows, which could evict them.
  for (const IterationPlan::Piece& piece : plan.pieces()) {
    Request& request = Mutable(*piece.request);
    if (request.phase() == Phase::kSwapped) {
      SwapIn(request, batch);
    } else {
      CommittedPiece committed;
      committed.request = &request;
      committed.num_tokens = piece.num_tokens;
      if (request.phase() == Phase::kWaiting) Admit(piece, committed);
      batch.pieces.push_back(committed);
    }
  }
  batch.decode_all = plan.decode_all();
  if (plan.decode_all()) {
    while (!loose_.empty()) JoinSteady(*loose_.front());
    CommitDecodeAll();
  }
  auto committed = batch.pieces.begin();
  for (const IterationPlan::Piece& piece : plan.pieces()) {
    if (piece.num_tokens == 0) continue;  // swapped in
    GrowForPiece(piece, *committed++);
  }
}

void EngineState::GrowGroup(const BoundaryGroup& group, int64_t num_blocks) {
  const bool grown = cache_->GrowByBlocks(group.sequences, num_blocks);
  CHECK(grown && "a valid plan ran out of blocks");
}

void EngineState::Preempt(Request& request, PreemptMode mode,
                          CommittedBatch& batch) {
  LeaveRunning(request);
  ++batch.num_preemptions;
  ++request.preemptions_;
  request.high_water_ = std::max(request.high_water_, request.computed_);
  if (mode == PreemptMode::kSwap) {
    batch.swapped_out_blocks += cache_->num_blocks_of(request.sequence_);
    const bool swapped = cache_->SwapOut(request.sequence_);
    CHECK(swapped && "a valid plan ran out of host blocks");
    request.swapped_from_ = request.phase_;
    request.phase_ = Phase::kSwapped;
    swapped_.PushBack(request);
    return;
  }
  RegisterComputed(request);
  cache_->Release(request.sequence_);
  request.computed_ = 0;
  request.reserved_ = false;
  EnqueueWaiting(request, /*from_front=*/true);
}

void EngineState::Admit(const IterationPlan::Piece& piece,
                        CommittedPiece& committed) {
  Request& request = *committed.request;
  committed.admitted = true;
  if (prefix_caching_) {
    const cache::PrefixHit& hit = FindPrefix(request);
    const bool acquired = cache_->Acquire(request.sequence_, hit);
    CHECK(acquired);
    committed.prefix_hit_tokens = static_cast<int32_t>(hit.num_tokens);
    request.computed_ = committed.prefix_hit_tokens;
  }
  request.reserved_ = piece.reservation == Reservation::kCompletion;
  waiting_.Remove(request);
  running_.PushBack(request);
  request.phase_ = Phase::kPrefill;
  prefilling_.PushBack(request);
}

void EngineState::SwapIn(Request& request, CommittedBatch& batch) {
  batch.swapped_in_blocks += cache_->SwapInNeed(request.sequence_);
  const bool swapped = cache_->SwapIn(request.sequence_);
  CHECK(swapped && "a valid plan ran out of blocks");
  swapped_.Remove(request);
  running_.PushBack(request);
  request.phase_ = request.swapped_from_;
  if (request.phase_ == Phase::kPrefill) {
    prefilling_.PushBack(request);
  } else {
    loose_.PushBack(request);
  }
}

void EngineState::GrowForPiece(const IterationPlan::Piece& piece,
                               CommittedPiece& committed) {
  Request& request = *committed.request;
  if (request.steady_) {
    LeaveSteady(request);
    loose_.PushBack(request);
  }
  committed.context_tokens = request.computed_;
  committed.decode = request.phase_ == Phase::kDecode;
  committed.samples = piece.num_tokens == request.remaining();
  committed.recomputed_tokens =
      std::clamp(request.high_water_ - request.computed_, 0, piece.num_tokens);
  int64_t tokens = request.computed_ + piece.num_tokens;
  if (committed.admitted) {
    tokens = AdmittedTokens(request, tokens, piece.reservation);
  }
  // A reservation made earlier may cover more.
  if (tokens > cache_->num_tokens(request.sequence_)) {
    const bool grown = cache_->Grow(request.sequence_, tokens);
    CHECK(grown && "a valid plan ran out of blocks");
  }
}

int64_t EngineState::SteadyIterationsThatFit(int64_t most) const {
  int64_t left = cache_->free_blocks();
  if (num_steady_ * cache_->BlocksFor(most) <= left) return most;
  for (int64_t i = 0; i < most; ++i) {
    left -= SteadyNeedAt(decode_iterations_ + i + 1);
    if (left < 0) return i;
  }
  return most;
}

void EngineState::AdvanceSteady(int64_t count) {
  kv_tokens_squared_ += count * (2 * kv_tokens_ + count * num_steady_);
  kv_tokens_ += count * num_steady_;
  if (prefix_caching_) {
    for (int64_t i = 0; i < count; ++i) {
      ++decode_iterations_;
      RegisterFilledBlocks();
      CommitDecodeAll();
    }
    return;
  }
  for (int64_t i = 1; i <= std::min(count, block_size_); ++i) {
    const BoundaryGroup& group =
        boundary_[BoundaryClass(decode_iterations_ + i)];
    if (group.sequences.empty()) continue;
    GrowGroup(group, cache_->BlocksFor(count - i + 1));
  }
  decode_iterations_ += count;
}

void EngineState::RegisterFilledBlocks() {
  // These have just filled a block: it can be found from now on.
  for (Request* request :
       boundary_[BoundaryClass(decode_iterations_)].requests) {
    RegisterComputed(*request);
  }
}

bool EngineState::AdvancePiece(const CommittedPiece& piece) {
  Request& request = *piece.request;
  request.computed_ += piece.num_tokens;
  RegisterComputed(request);
  if (!piece.samples) return false;
  ++request.produced_;
  if (request.phase_ == Phase::kPrefill) {
    prefilling_.Remove(request);
    request.phase_ = Phase::kDecode;
    loose_.PushBack(request);
  }
  if (request.produced_ >= request.spec_.output_tokens) return true;
  if (!piece.decode) JoinSteady(request);
  return false;
}

void EngineState::Remove(Request& request) {
  Retire(request);
  cache_->DestroySequence(retired_.back());
  retired_.pop_back();
}

bool EngineState::ReleaseRetired() {
  if (retired_.empty()) return false;
  for (cache::SequenceId sequence : retired_) cache_->DestroySequence(sequence);
  retired_.clear();
  return true;
}

void EngineState::Retire(Request& request) {
  switch (request.phase_) {
    case Phase::kWaiting:
      waiting_.Remove(request);
      break;
    case Phase::kSwapped:
      swapped_.Remove(request);
      break;
    default:
      LeaveRunning(request);
  }
  if (request.phase_ != Phase::kSwapped) RegisterComputed(request);
  retired_.push_back(request.sequence_);
  request.phase_ = Phase::kDone;
  unused_.push_back(&request);
}

void EngineState::RegisterComputed(Request& request) {
  if (!prefix_caching_) return;
  cache_->RegisterComputed(request.sequence_, request.tokens_,
                           request.computed(), /*extra_keys=*/{});
}

void EngineState::LeaveRunning(Request& request) {
  running_.Remove(request);
  if (request.phase_ == Phase::kPrefill) {
    prefilling_.Remove(request);
  } else if (request.steady_) {
    LeaveSteady(request);
  } else {
    loose_.Remove(request);
  }
}

void EngineState::JoinSteady(Request& request) {
  loose_.Remove(request);
  request.steady_ = true;
  request.joined_ = decode_iterations_;
  request.finish_iteration_ =
      decode_iterations_ + request.spec_.output_tokens - request.produced_ - 1;
  ++num_steady_;
  kv_tokens_ += request.computed_;
  kv_tokens_squared_ += int64_t{request.computed_} * request.computed_;
  by_finish_.Push(request);
  if (track_longest_) by_length_.Push(request);
  if (!request.reserved_) JoinBoundary(request);
  request.fresh_index_ = static_cast<int32_t>(fresh_.size());
  fresh_.push_back(&request);
}

void EngineState::ClearFresh() {
  for (Request* request : fresh_) request->fresh_index_ = -1;
  fresh_.clear();
}

void EngineState::LeaveSteady(Request& request) {
  if (request.boundary_class_ >= 0) LeaveBoundary(request);
  if (request.fresh_index_ >= 0) {
    Request* last = fresh_.back();
    fresh_[static_cast<size_t>(request.fresh_index_)] = last;
    last->fresh_index_ = request.fresh_index_;
    fresh_.pop_back();
    request.fresh_index_ = -1;
  }
  by_finish_.Remove(request);
  if (track_longest_) by_length_.Remove(request);
  const int32_t computed = request.computed();
  request.produced_ = request.produced();
  request.computed_ = computed;
  request.steady_ = false;
  --num_steady_;
  kv_tokens_ -= computed;
  kv_tokens_squared_ -= int64_t{computed} * computed;
}

void EngineState::JoinBoundary(Request& request) {
  // It needs a block in the iterations that start with full blocks only: when
  // counter - joined + computed is a multiple of the block size.
  const int64_t phase = request.computed_ % block_size_;
  request.boundary_class_ = static_cast<int32_t>(
      BoundaryClass(decode_iterations_ + block_size_ - phase));
  BoundaryGroup& group =
      boundary_[static_cast<size_t>(request.boundary_class_)];
  request.boundary_index_ = static_cast<int32_t>(group.requests.size());
  group.requests.push_back(&request);
  group.sequences.push_back(request.sequence_);
}

void EngineState::LeaveBoundary(Request& request) {
  BoundaryGroup& group =
      boundary_[static_cast<size_t>(request.boundary_class_)];
  const size_t index = static_cast<size_t>(request.boundary_index_);
  group.requests[index] = group.requests.back();
  group.sequences[index] = group.sequences.back();
  group.requests[index]->boundary_index_ = request.boundary_index_;
  group.requests.pop_back();
  group.sequences.pop_back();
  request.boundary_class_ = -1;
  request.boundary_index_ = -1;
}

absl::Status EngineState::CheckInvariants() const {
  int64_t steady = 0;
  int64_t kv_tokens = 0;
  int64_t kv_tokens_squared = 0;
  for (const Request& request : running_) {
    if (!request.running()) return Broken(request, "is in running (I1)");
    const int64_t computed = request.computed();
    const int64_t held = cache_->num_blocks_of(request.sequence());
    const int64_t least = cache_->BlocksFor(computed);
    if (held < least ||
        (request.steady_ && !request.reserved_ && held > least)) {
      return Broken(request, absl::StrCat("holds ", held, " blocks for ",
                                          computed, " tokens (I4)"));
    }
    if (!request.steady_) continue;
    ++steady;
    kv_tokens += computed;
    kv_tokens_squared += computed * computed;
    if (request.finish_iteration_ < decode_iterations_) {
      return Broken(request, "should have ended (I3)");
    }
  }
  if (steady != num_steady_ || kv_tokens != kv_tokens_ ||
      kv_tokens_squared != kv_tokens_squared_ || by_finish_.size() != steady) {
    return absl::InternalError("sums of the steady requests are wrong (I3)");
  }
  if (running_.size() != prefilling_.size() + loose_.size() + num_steady_) {
    return absl::InternalError("phases do not add up to running (I2)");
  }
  return cache_->CheckInvariants();
}

}  // namespace interleave::scheduler
