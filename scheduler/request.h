// Request: one request in an engine, with how far it has come.
//
// Life cycle (kSwapped only where a policy swaps):
//
//            admitted              prompt computed            last token
//   kWaiting ────────► kPrefill ───────────────────► kDecode ───────────► kDone
//      ▲  │               │                            │  ▲
//      │  │ rejected      │ preempted (recompute)      │  │ swapped in
//      │  └──► kDone      ▼                            ▼  │
//      └──────────────────┴──────────────────────── kSwapped
//
// A decode that simply goes on is not visited: while a request is *steady* its
// progress is read off the engine's counter of decode iterations.

#ifndef SCHEDULER_REQUEST_H_
#define SCHEDULER_REQUEST_H_

#include <cstdint>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/sim_time.h"
#include "cache/kv_cache_manager.h"
#include "cache/token_source.h"
#include "scheduler/indexed_heap.h"
#include "scheduler/intrusive_list.h"
#include "scheduler/request_spec.h"

namespace interleave::scheduler {

enum class Phase : uint8_t { kWaiting, kPrefill, kDecode, kSwapped, kDone };

absl::string_view PhaseName(Phase phase);

// The tokens of one request: named prompt segments first, then tokens that no
// other request has.  Token ids are made from (content, position), so equal
// content gives equal ids and nothing needs to be stored.
class RequestTokens final : public cache::TokenSource {
 public:
  explicit RequestTokens(const RequestSpec* spec) : spec_(spec) {}
  void Read(int64_t begin, absl::Span<int32_t> out) const override;

 private:
  const RequestSpec* spec_;
};

// What has happened to a request, for the metrics; written by the engine's
// owner, of no concern to EngineState.
struct RequestHistory {
  SimTime first_scheduled;
  SimTime first_token;
  SimTime last_token;
  SimTime preempted;
  // The longest gap between two tokens so far, of those not in the shared
  // history of decode iterations.
  SimDuration longest_gap;
  // Decode iteration whose gap is the first one in the shared history.
  int64_t history_begin = 0;
  // Spent in iterations that computed tokens anew after a preemption, since
  // the last token.
  SimDuration recomputing;
  int64_t prefix_hit_tokens = 0;
  int64_t recomputed_tokens = 0;
};

class Request {
 public:
  // `decode_iterations`: the engine's counter; must outlive the request.
  Request(RequestSpec spec, const int64_t* decode_iterations)
      : spec_(std::move(spec)),
        tokens_(&spec_),
        decode_iterations_(decode_iterations) {}
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  const RequestSpec& spec() const { return spec_; }
  int64_t id() const { return spec_.id; }
  Phase phase() const { return phase_; }
  // What it was doing when it was swapped out, and does when it is back.
  // REQUIRES: phase() is kSwapped.
  Phase swapped_from() const { return swapped_from_; }
  // Whether it holds a place among max_num_seqs.
  bool running() const {
    return phase_ == Phase::kPrefill || phase_ == Phase::kDecode;
  }

  // Tokens generated so far.
  int32_t produced() const { return produced_ + progress(); }
  // Tokens whose keys and values are in the cache.
  int32_t computed() const { return computed_ + progress(); }
  // Prompt and generated tokens.
  int32_t num_tokens() const { return spec_.prompt_tokens + produced(); }
  // Tokens to compute before the next one is sampled: 1 for a decode.
  int32_t remaining() const { return num_tokens() - computed(); }
  // Tokens that may still be generated, as far as a server knows.
  int32_t remaining_output_limit() const {
    return spec_.max_output_tokens - produced();
  }
  // Tokens that its cache blocks must hold at the very end, as far as a server
  // knows: the last generated token is never computed.
  int64_t max_cached_tokens() const {
    return int64_t{spec_.prompt_tokens} + spec_.max_output_tokens - 1;
  }
  int32_t preemptions() const { return preemptions_; }
  // Whether its blocks were reserved to completion when it was admitted.
  bool reserved() const { return reserved_; }
  cache::SequenceId sequence() const { return sequence_; }
  const RequestTokens& tokens() const { return tokens_; }

  // Whether its progress is the engine's counter; see EngineState.
  bool steady() const { return steady_; }
  // Whether it has become steady since the last decode_all iteration.
  bool fresh() const { return fresh_index_ >= 0; }

  const RequestHistory& history() const { return history_; }
  RequestHistory& mutable_history() { return history_; }

 private:
  friend class EngineState;
  friend struct FinishOrder;
  friend struct LengthOrder;

  int32_t progress() const {
    return steady_ ? static_cast<int32_t>(*decode_iterations_ - joined_) : 0;
  }

  RequestSpec spec_;
  RequestTokens tokens_;
  const int64_t* decode_iterations_;

  Phase phase_ = Phase::kWaiting;
  // What it was doing when it was swapped out.
  Phase swapped_from_ = Phase::kWaiting;
  bool steady_ = false;
  bool reserved_ = false;
  // As of `joined_` where steady, of now elsewhere.
  int32_t produced_ = 0;
  int32_t computed_ = 0;
  // Value of the decode counter when it became steady.
  int64_t joined_ = 0;
  // The most tokens it ever had in the cache: below that, computing is
  // recomputing.
  int32_t high_water_ = 0;
  int32_t preemptions_ = 0;
  cache::SequenceId sequence_;
  cache::BlockHashes block_hashes_;
  cache::PrefixHit hit_;
  int64_t hit_version_ = -1;
  int64_t waiting_key_ = 0;

  // Decode iteration that gives its last token, where steady.
  int64_t finish_iteration_ = 0;
  int32_t finish_index_ = kNotInHeap;
  int32_t length_index_ = kNotInHeap;
  // Where it stands among the steady requests that need a block together.
  int32_t boundary_class_ = -1;
  int32_t boundary_index_ = -1;
  // Its place among EngineState::fresh(), -1 where it is not there.
  int32_t fresh_index_ = -1;

  RequestHistory history_;

 public:
  // For EngineState's lists; public because lists take a pointer to them.
  // waiting, running or swapped:
  ListLink<Request> queue_link;
  // prefilling, or decoding but not steady:
  ListLink<Request> phase_link;
  // Where the plan being validated mentions the request.
  mutable int64_t mark = -1;
};

using RequestQueue = IntrusiveList<Request, &Request::queue_link>;
using PhaseList = IntrusiveList<Request, &Request::phase_link>;

}  // namespace interleave::scheduler

#endif  // SCHEDULER_REQUEST_H_
