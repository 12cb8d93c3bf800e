// IterationPlan: what a policy proposes for the next iteration.
//
// A plan is refused whole, with an error that names the request and the rule
// broken, or carried out whole, in this order: rejections, preemptions, cache
// blocks of the decodes, of the pieces in their order (a piece of a waiting or
// swapped request admits it).

#ifndef SCHEDULER_ITERATION_PLAN_H_
#define SCHEDULER_ITERATION_PLAN_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/request.h"

namespace interleave::scheduler {

// How many cache blocks a request takes when it is admitted.
enum class Reservation : uint8_t {
  // For the tokens computed in this iteration; more as it goes on.
  kChunk,
  // For its whole prompt (and what it had generated before a preemption).
  kPrompt,
  // For its prompt and all it may generate: it can never run out.
  kCompletion,
};

enum class PreemptMode : uint8_t {
  // Blocks are released; the request is computed anew from the front of the
  // waiting queue.
  kRecompute,
  // Blocks are copied to the host; swapped in later by a piece of 1 token.
  kSwap,
};

// Lets the engine carry out the same plan again without asking, which must
// give what asking would have given.  Only for plans of decode_all alone.
// Whatever it says, a plan is not repeated once blocks run short or a request
// finishes.
enum class Repeat : uint8_t {
  kNo,
  // Until a request arrives.
  kUntilArrival,
  // Arrivals change nothing either: something else holds the queue back.
  kThroughArrivals,
};

class IterationPlan {
 public:
  struct Piece {
    const Request* request = nullptr;
    // Tokens computed, >= 1; of a swapped request: 0, it rejoins the decodes.
    int32_t num_tokens = 0;
    // Of a waiting request: see Reservation.
    Reservation reservation = Reservation::kChunk;
  };
  struct Preemption {
    const Request* request = nullptr;
    PreemptMode mode = PreemptMode::kRecompute;
  };
  struct Rejection {
    const Request* request = nullptr;
    std::string reason;
  };

  // Makes it empty, keeping its memory.
  void Clear() {
    decode_all_ = false;
    repeat_ = Repeat::kNo;
    num_piece_tokens_ = 0;
    pieces_.clear();
    preemptions_.clear();
    rejections_.clear();
  }

  // Every request in the decode phase computes one token, those swapped in by
  // this plan included and those preempted by it excluded.  Costs nothing per
  // request.
  void DecodeAll() { decode_all_ = true; }

  // Computes the next `num_tokens` tokens of a request that is waiting (which
  // admits it), prefilling, or decoding (1 token; not together with
  // DecodeAll).
  void Run(const Request& request, int32_t num_tokens,
           Reservation reservation = Reservation::kChunk) {
    num_piece_tokens_ += num_tokens;
    pieces_.push_back({&request, num_tokens, reservation});
  }

  // Brings a swapped request back among the decodes.
  void SwapIn(const Request& request) { pieces_.push_back({&request, 0}); }

  // Takes a running request off the device.
  void Preempt(const Request& request,
               PreemptMode mode = PreemptMode::kRecompute) {
    preemptions_.push_back({&request, mode});
  }

  // Ends a waiting request unserved.
  void Reject(const Request& request, std::string reason) {
    rejections_.push_back({&request, std::move(reason)});
  }

  void set_repeat(Repeat repeat) { repeat_ = repeat; }

  bool decode_all() const { return decode_all_; }
  Repeat repeat() const { return repeat_; }
  // Tokens of all pieces.
  int64_t num_piece_tokens() const { return num_piece_tokens_; }
  const std::vector<Piece>& pieces() const { return pieces_; }
  const std::vector<Preemption>& preemptions() const { return preemptions_; }
  const std::vector<Rejection>& rejections() const { return rejections_; }

  bool empty() const {
    return !decode_all_ && pieces_.empty() && preemptions_.empty() &&
           rejections_.empty();
  }

 private:
  bool decode_all_ = false;
  Repeat repeat_ = Repeat::kNo;
  int64_t num_piece_tokens_ = 0;
  std::vector<Piece> pieces_;
  std::vector<Preemption> preemptions_;
  std::vector<Rejection> rejections_;
};

}  // namespace interleave::scheduler

#endif  // SCHEDULER_ITERATION_PLAN_H_
