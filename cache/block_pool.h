// BlockPool: the ids, reference counts and free list of a fixed set of equally
// large cache blocks.  It is the only authority on free capacity.
//
//   BlockPool pool(1000);
//   std::vector<int32_t> table(4);
//   if (!pool.AllocateInto(4, table.data())) ...  // fewer than 4 are free
//   RETURN_IF_ERROR(pool.ReleaseTailFirst(table));
//
// The free list is a FIFO, and with that the LRU of cached blocks: a block
// whose content can still be found (`cached`) waits in it like any other, can
// be touched back into use, and loses its content when it is allocated anew.
// Releasing tail first makes the head of a shared prefix the last to go.
//
// The FIFO is a ring of block ids, at least twice as long as there are blocks.
// A block knows its place in the ring; leaving from the middle puts a hole
// there, and holes are squeezed out when the ring is full, which is at least
// num_blocks holes later.  So every operation is O(1) a block (amortized), bulk
// operations run through memory in order, and one 8-byte word a block is all
// that is visited out of order.  Nothing is allocated after construction.
//
// Invariants, which CheckInvariants() verifies:
//   I1  free + used == num_blocks;
//   I2  a block is in the ring, once, exactly when its reference count is 0.
//
// Not thread-safe.

#ifndef CACHE_BLOCK_POOL_H_
#define CACHE_BLOCK_POOL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/strong_int.h"
#include "cache/huge_array.h"

namespace interleave::cache {

// Name of a block, in [0, num_blocks).  Block tables hold plain int32_t, which
// is what kernels read.
using BlockId = StrongInt<struct BlockIdTag, int32_t>;

// What a block table holds where there is no block (it left the window).
inline constexpr int32_t kNullBlock = -1;

class BlockPool {
 public:
  static constexpr int64_t kMaxBlocks = int64_t{1} << 30;

  // All blocks are free, in the order of their ids.
  // REQUIRES: 0 <= num_blocks <= kMaxBlocks.
  explicit BlockPool(int64_t num_blocks);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  int64_t num_blocks() const { return num_blocks_; }
  // Blocks that can be allocated now, cached ones included.
  int64_t num_free() const { return num_free_; }
  int64_t num_used() const { return num_blocks_ - num_free_; }
  int64_t peak_used() const { return peak_used_; }
  // Blocks with two references or more.
  int64_t num_shared() const { return num_shared_; }
  // Cached blocks that were allocated anew so far.
  int64_t num_evictions() const { return num_evictions_; }

  // REQUIRES, of these three: Contains(id).
  int32_t ref_count(BlockId id) const {
    return static_cast<int32_t>(state(id).word >> kRefShift);
  }
  bool is_cached(BlockId id) const {
    return (state(id).word & kCachedBit) != 0;
  }
  void set_cached(BlockId id, bool cached) {
    uint32_t& word = states_[static_cast<size_t>(id.value())].word;
    word = cached ? word | kCachedBit : word & ~kCachedBit;
  }
  bool Contains(BlockId id) const {
    return id.value() >= 0 && id.value() < num_blocks_;
  }

  // Takes the `count` blocks that have been free longest, each with one
  // reference, and writes their ids to `out`.  Returns false, with nothing
  // changed, if fewer are free or `count` is negative.  Calls
  // on_evict(BlockId) for each one that was cached, which it then is no longer.
  template <typename OnEvict>
  [[nodiscard]] bool AllocateInto(int64_t count, int32_t* out,
                                  OnEvict&& on_evict);
  [[nodiscard]] bool AllocateInto(int64_t count, int32_t* out) {
    return AllocateInto(count, out, [](BlockId) {});
  }

  // One more reference; a block that was free leaves the free list.
  // REQUIRES: Contains(id).
  void Touch(BlockId id);

  // Takes one reference from each block; those left with none join the end of
  // the free list, in the order given (or its reverse).  Refused as a whole,
  // with nothing changed: OutOfRange for an id that is not the pool's,
  // FailedPrecondition for a block that is free already, InvalidArgument for a
  // block listed twice.
  absl::Status Release(absl::Span<const int32_t> ids) {
    return ReleaseInOrder</*kTailFirst=*/false>(ids);
  }
  absl::Status ReleaseTailFirst(absl::Span<const int32_t> ids) {
    return ReleaseInOrder</*kTailFirst=*/true>(ids);
  }

  // The free blocks, the next to be allocated first.  O(num_blocks).
  std::vector<int32_t> FreeOrder() const;

  // Internal, naming the invariant, if one is broken.  O(num_blocks).
  absl::Status CheckInvariants() const;

 private:
  // In `word`, above these two bits: the reference count.
  static constexpr uint32_t kCachedBit = 1;
  // Set only inside Release: this call has released the block once.
  static constexpr uint32_t kReleasedBit = 2;
  static constexpr int kRefShift = 2;
  static constexpr uint32_t kOneRef = 1u << kRefShift;
  static constexpr int32_t kHole = -1;
  static constexpr uint64_t kAhead = 16;

  struct State {
    // Index in the ring, of a free block.
    uint32_t place = 0;
    uint32_t word = 0;
  };

  const State& state(BlockId id) const {
    DCHECK(Contains(id));
    return states_[static_cast<size_t>(id.value())];
  }
  void NoteUse() {
    if (num_used() > peak_used_) peak_used_ = num_used();
  }
  template <bool kTailFirst>
  absl::Status ReleaseInOrder(absl::Span<const int32_t> ids);
  // Gives back what the first `count` steps of a release took, and says why
  // the next one was refused.
  template <bool kTailFirst>
  absl::Status UndoRelease(absl::Span<const int32_t> ids, size_t count);
  void SqueezeOutHoles();

  const int64_t num_blocks_;
  int64_t num_free_;
  int64_t peak_used_ = 0;
  int64_t num_shared_ = 0;
  int64_t num_evictions_ = 0;
  HugeArray<State> states_;
  // Places [head_, tail_), modulo the length, hold free blocks and holes.
  std::vector<int32_t> ring_;
  uint64_t ring_mask_;
  uint64_t head_ = 0;
  uint64_t tail_;
};

template <typename OnEvict>
bool BlockPool::AllocateInto(int64_t count, int32_t* out, OnEvict&& on_evict) {
  if (count < 0 || count > num_free_) return false;
  const int32_t* const ring = ring_.data();
  State* const states = states_.data();
  const uint64_t mask = ring_mask_;
  uint64_t head = head_;
  for (int64_t i = 0; i < count;) {
    const int32_t id = ring[head++ & mask];
    if (ABSL_PREDICT_FALSE(id == kHole)) continue;
    // This call or a later one will take that block.
    const int32_t ahead = ring[(head + kAhead) & mask];
    __builtin_prefetch(states + (ahead == kHole ? 0 : ahead), /*rw=*/1);
    uint32_t& word = states[id].word;
    if (word & kCachedBit) {
      ++num_evictions_;
      on_evict(BlockId(id));
    }
    word = kOneRef;
    out[i++] = id;
  }
  head_ = head;
  num_free_ -= count;
  NoteUse();
  return true;
}

inline void BlockPool::Touch(BlockId id) {
  DCHECK(Contains(id));
  State& state = states_[static_cast<size_t>(id.value())];
  if (state.word < kOneRef) {
    ring_[state.place] = kHole;
    --num_free_;
    NoteUse();
  } else if (state.word < 2 * kOneRef) {
    ++num_shared_;
  }
  state.word += kOneRef;
}

template <bool kTailFirst>
absl::Status BlockPool::ReleaseInOrder(absl::Span<const int32_t> ids) {
  const size_t size = ids.size();
  // No more than the used blocks can join the ring, whatever is listed.
  if (ABSL_PREDICT_FALSE(tail_ - head_ + static_cast<uint64_t>(num_used()) >
                         ring_mask_ + 1)) {
    SqueezeOutHoles();
  }
  State* const states = states_.data();
  int32_t* const ring = ring_.data();
  const uint64_t mask = ring_mask_;
  uint64_t tail = tail_;
  bool any_shared = false;
  for (size_t i = 0; i < size; ++i) {
    const int32_t id = ids[kTailFirst ? size - 1 - i : i];
    if (ABSL_PREDICT_FALSE(static_cast<uint32_t>(id) >=
                           static_cast<uint32_t>(num_blocks_))) {
      return UndoRelease<kTailFirst>(ids, i);
    }
    State& state = states[id];
    if (ABSL_PREDICT_TRUE((state.word & ~kCachedBit) == kOneRef)) {
      state.word -= kOneRef;
      state.place = static_cast<uint32_t>(tail & mask);
      ring[tail++ & mask] = id;
      continue;
    }
    if (state.word < kOneRef || (state.word & kReleasedBit) != 0) {
      return UndoRelease<kTailFirst>(ids, i);
    }
    state.word = (state.word - kOneRef) | kReleasedBit;
    any_shared = true;
  }
  num_free_ += static_cast<int64_t>(tail - tail_);
  tail_ = tail;
  if (any_shared) {
    for (const int32_t id : ids) {
      uint32_t& word = states[id].word;
      if ((word & kReleasedBit) == 0) continue;
      word &= ~kReleasedBit;
      if (word < 2 * kOneRef) --num_shared_;
    }
  }
  return absl::OkStatus();
}

}  // namespace interleave::cache

#endif  // CACHE_BLOCK_POOL_H_
