// PrefixIndex: finds the block that holds given tokens after a given prefix.
//
//   uint64_t hash = index.hasher().Root(extra_keys);
//   PrefixIndex::Identity prefix = PrefixIndex::kRoot;
//   hash = index.hasher().Next(hash, tokens);
//   const PrefixIndex::Match match = index.Find(hash, prefix, tokens, keys);
//   if (match.found()) prefix = match.identity;   // and on to the next block
//
// A hash leads to candidates, never to an answer.  Every distinct content (the
// tokens of a block, all before them, the extra keys at the very front) has an
// identity, a number that is never used again; a block remembers its tokens,
// its identity and that of the content before it.  It matches when the tokens
// are equal and the content before is the one asked for, which by induction
// makes the whole prefix equal.  The extra keys are compared at the first block
// of a prefix.
//
// An identity lives as long as a block with that content is indexed.  Blocks
// after a content that is gone can't be found any more; with releases tail
// first they are gone before it.
//
// Several blocks may hold the same content; the one indexed first is found.
//
// Blocks of further groups (other layers, same tokens) are indexed by the
// identity alone: AddToGroup and FindInGroup.
//
// The table is of open addressing with linear probing, sized once, at most half
// full; erasing moves entries back instead of leaving marks.  Every operation
// is O(1) a block and allocates nothing, except for extra keys: more than four
// of them for one sequence, or the first ones ever.
//
// Not thread-safe.

#ifndef CACHE_PREFIX_INDEX_H_
#define CACHE_PREFIX_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "cache/block_hash.h"
#include "cache/block_pool.h"
#include "cache/huge_array.h"

namespace interleave::cache {

class PrefixIndex {
 public:
  // Of a content; no two contents ever share one.
  using Identity = uint64_t;
  // Of what stands before the first block.
  static constexpr Identity kRoot = 0;

  struct Match {
    int32_t block = kNullBlock;
    Identity identity = kRoot;
    bool found() const { return block != kNullBlock; }
  };

  // For blocks [0, num_blocks) of `block_size` tokens each.
  // REQUIRES: 0 <= num_blocks <= BlockPool::kMaxBlocks, block_size >= 1.
  PrefixIndex(int64_t num_blocks, int64_t block_size,
              BlockHasher hasher = BlockHasher());
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  const BlockHasher& hasher() const { return hasher_; }
  // Blocks that can be found.
  int64_t size() const { return size_; }
  // Grows with every change of what can be found.
  int64_t version() const { return version_; }

  // Starts loading what the other operations on `hash` read first.
  //
  // Always inlined, all three: GCC 12 takes a function that only prefetches for
  // one without effect, and drops its calls.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Prefetch(uint64_t hash) const;
  // Starts loading what is kept about a block.  REQUIRES: it is in range.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void PrefetchEntry(BlockId block) const {
    __builtin_prefetch(&entry(block));
    __builtin_prefetch(tokens_of(block.value()));
  }
  // Starts loading the block that `hash` leads to.  O(1), best after Prefetch.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void PrefetchBlock(uint64_t hash) const;

  // The block with these tokens after content `parent`.  `extra_keys` matters
  // where that is kRoot.  REQUIRES: tokens.size() == block_size.
  Match Find(uint64_t hash, Identity parent, absl::Span<const int32_t> tokens,
             absl::Span<const int64_t> extra_keys) const;
  // The first block of the content with this identity, or kNullBlock.
  int32_t FindIdentity(uint64_t hash, Identity parent, Identity identity) const;
  // Whether Find could succeed: false is certain, and cheap.
  bool MayContain(uint64_t hash) const {
    return Probe(hash, [](int32_t) { return true; }) != kNullBlock;
  }
  int32_t FindInGroup(Identity identity, int32_t group) const;

  // Makes a block findable and returns the identity of its content, an existing
  // one where the content is indexed already.
  // REQUIRES: as Find; `block` is in range and not indexed.
  Identity Add(BlockId block, uint64_t hash, Identity parent,
               absl::Span<const int32_t> tokens,
               absl::Span<const int64_t> extra_keys);
  // REQUIRES: group >= 1; `block` is in range and not indexed.
  void AddToGroup(BlockId block, Identity identity, int32_t group);

  // An identity for a content of which there is no block.
  Identity NewIdentity() { return ++last_identity_; }

  // REQUIRES, of the following four: `block` is indexed.
  uint64_t hash(BlockId block) const { return entry(block).hash; }
  Identity identity(BlockId block) const { return entry(block).identity; }
  // That of the content before the block; of a block in a further group,
  // GroupParent(group).
  Identity parent(BlockId block) const { return entry(block).parent; }
  void Erase(BlockId block);

  bool Contains(BlockId block) const { return entry(block).next != kNullBlock; }

  // Stands for the parent in the blocks of a further group; of no content.
  static Identity GroupParent(int32_t group) {
    return ~static_cast<Identity>(group);
  }

  // Forgets all blocks.
  void Clear();

  // Internal if table and entries disagree.  O(num_blocks).
  absl::Status CheckInvariants() const;

 private:
  // Half a cache line.
  struct Entry {
    uint64_t hash = 0;
    Identity parent = kRoot;
    Identity identity = kRoot;
    // Ring of the blocks with the same content; kNullBlock: not indexed.
    int32_t next = kNullBlock;
    int32_t previous = kNullBlock;
  };
  // One a content: the first of its blocks.
  struct Slot {
    uint32_t tag = 0;
    int32_t block = kNullBlock;
  };
  using ExtraKeys = absl::InlinedVector<int64_t, 4>;

  const Entry& entry(BlockId block) const {
    return entries_[static_cast<size_t>(block.value())];
  }
  Entry& entry(int32_t block) { return entries_[static_cast<size_t>(block)]; }
  const int32_t* tokens_of(int32_t block) const {
    return tokens_.data() + static_cast<size_t>(block) * block_size_;
  }
  bool SameKeys(int32_t block, absl::Span<const int64_t> extra_keys) const;
  // Calls accept(block) for what the slots hold under `hash`; returns the first
  // block accepted, or kNullBlock.
  template <typename Accept>
  int32_t Probe(uint64_t hash, Accept&& accept) const;
  void Link(int32_t block, uint64_t hash, Identity parent, Identity identity,
            int32_t first);
  void PlaceInSlot(uint64_t hash, int32_t block);
  // The slot that holds `block`, or the number of slots.
  size_t SlotOf(uint64_t hash, int32_t block) const;
  void EmptySlot(size_t slot);

  const BlockHasher hasher_;
  const size_t block_size_;
  int64_t size_ = 0;
  int64_t version_ = 0;
  Identity last_identity_ = kRoot;
  HugeArray<Slot> slots_;
  uint32_t slot_mask_;
  HugeArray<Entry> entries_;
  // block_size_ for each block; those of a block of 16 lie in one cache line.
  HugeArray<int32_t> tokens_;
  // Of first blocks; empty until some sequence has extra keys.
  std::vector<ExtraKeys> extra_keys_;
};

inline void PrefixIndex::Prefetch(uint64_t hash) const {
  __builtin_prefetch(&slots_[static_cast<uint32_t>(hash) & slot_mask_]);
}

inline void PrefixIndex::PrefetchBlock(uint64_t hash) const {
  const Slot& slot = slots_[static_cast<uint32_t>(hash) & slot_mask_];
  if (slot.block == kNullBlock) return;
  __builtin_prefetch(&entries_[static_cast<size_t>(slot.block)]);
  __builtin_prefetch(tokens_of(slot.block));
}

template <typename Accept>
int32_t PrefixIndex::Probe(uint64_t hash, Accept&& accept) const {
  const uint32_t tag = static_cast<uint32_t>(hash);
  for (uint32_t i = tag & slot_mask_;; i = (i + 1) & slot_mask_) {
    const Slot& slot = slots_[i];
    if (slot.block == kNullBlock) return kNullBlock;
    if (slot.tag == tag && accept(slot.block)) return slot.block;
  }
}

}  // namespace interleave::cache

#endif  // CACHE_PREFIX_INDEX_H_
