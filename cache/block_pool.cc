#include "cache/block_pool.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/check.h"

namespace interleave::cache {
namespace {

// The smallest power of two that leaves room for as many holes as blocks.
uint64_t RingLength(int64_t num_blocks) {
  uint64_t length = 2;
  while (length < 2 * static_cast<uint64_t>(num_blocks)) length *= 2;
  return length;
}

}  // namespace

BlockPool::BlockPool(int64_t num_blocks)
    : num_blocks_(num_blocks),
      num_free_(num_blocks),
      states_(static_cast<size_t>(num_blocks)),
      tail_(static_cast<uint64_t>(num_blocks)) {
  CHECK(num_blocks >= 0 && num_blocks <= kMaxBlocks);
  const uint64_t length = RingLength(num_blocks);
  ring_.assign(length, kHole);
  ring_mask_ = length - 1;
  for (size_t i = 0; i < states_.size(); ++i) {
    ring_[i] = static_cast<int32_t>(i);
    states_[i].place = static_cast<uint32_t>(i);
  }
}

void BlockPool::SqueezeOutHoles() {
  uint64_t to = head_;
  for (uint64_t from = head_; from != tail_; ++from) {
    const int32_t id = ring_[from & ring_mask_];
    if (id == kHole) continue;
    ring_[to & ring_mask_] = id;
    states_[static_cast<size_t>(id)].place =
        static_cast<uint32_t>(to & ring_mask_);
    ++to;
  }
  tail_ = to;
}

template <bool kTailFirst>
absl::Status BlockPool::UndoRelease(absl::Span<const int32_t> ids,
                                    size_t count) {
  const auto id_at = [ids](size_t i) {
    return ids[kTailFirst ? ids.size() - 1 - i : i];
  };
  const int32_t refused = id_at(count);
  bool twice = false;
  for (size_t i = 0; i < count; ++i) {
    uint32_t& word = states_[static_cast<size_t>(id_at(i))].word;
    word = (word & ~kReleasedBit) + kOneRef;
    twice = twice || id_at(i) == refused;
  }
  if (refused < 0 || refused >= num_blocks_) {
    return absl::OutOfRangeError(
        absl::StrCat("block ", refused, " is not of this pool, whose ids are ",
                     "0 to ", num_blocks_ - 1));
  }
  if (twice) {
    return absl::InvalidArgumentError(
        absl::StrCat("block ", refused, " is listed twice in one release"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("block ", refused, " is released, but it is free already"));
}

template absl::Status BlockPool::UndoRelease<false>(absl::Span<const int32_t>,
                                                    size_t);
template absl::Status BlockPool::UndoRelease<true>(absl::Span<const int32_t>,
                                                   size_t);

std::vector<int32_t> BlockPool::FreeOrder() const {
  std::vector<int32_t> order;
  order.reserve(static_cast<size_t>(num_free_));
  for (uint64_t i = head_; i != tail_; ++i) {
    const int32_t id = ring_[i & ring_mask_];
    if (id != kHole) order.push_back(id);
  }
  return order;
}

absl::Status BlockPool::CheckInvariants() const {
  if (tail_ - head_ > ring_mask_ + 1) {
    return absl::InternalError("the ring of free blocks overflowed");
  }
  int64_t listed = 0;
  for (uint64_t i = head_; i != tail_; ++i) {
    const int32_t id = ring_[i & ring_mask_];
    if (id == kHole) continue;
    ++listed;
    const State& state = states_[static_cast<size_t>(id)];
    if (state.word >= kOneRef || state.place != (i & ring_mask_)) {
      return absl::InternalError(absl::StrCat(
          "block ", id, " is in the free list, but it is in use or listed ",
          "elsewhere (I2)"));
    }
  }
  int64_t unused = 0;
  int64_t shared = 0;
  for (const State& state : states_) {
    unused += state.word < kOneRef;
    shared += state.word >= 2 * kOneRef;
    if ((state.word & kReleasedBit) != 0) {
      return absl::InternalError("a release left its mark on a block");
    }
  }
  if (listed != num_free_ || unused != num_free_) {
    return absl::InternalError(absl::StrCat(
        num_free_, " blocks are counted as free, ", listed, " are listed and ",
        unused, " have no reference (I1, I2)"));
  }
  if (shared != num_shared_) {
    return absl::InternalError(absl::StrCat(
        num_shared_, " blocks are counted as shared, ", shared, " are"));
  }
  return absl::OkStatus();
}

}  // namespace interleave::cache
