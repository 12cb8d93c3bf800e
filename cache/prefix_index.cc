#include "cache/prefix_index.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "cache/block_hash.h"
#include "cache/block_pool.h"

namespace interleave::cache {
namespace {

// The smallest power of two that leaves at least half of the slots empty.
size_t NumSlots(int64_t num_blocks) {
  size_t slots = 2;
  while (slots < 2 * static_cast<size_t>(num_blocks)) slots *= 2;
  return slots;
}

}  // namespace

PrefixIndex::PrefixIndex(int64_t num_blocks, int64_t block_size,
                         BlockHasher hasher)
    : hasher_(hasher),
      block_size_(static_cast<size_t>(block_size)),
      slots_(NumSlots(num_blocks)),
      slot_mask_(static_cast<uint32_t>(slots_.size() - 1)),
      entries_(static_cast<size_t>(num_blocks)),
      tokens_(entries_.size() * block_size_) {
  CHECK(num_blocks >= 0 && num_blocks <= BlockPool::kMaxBlocks);
  CHECK_GE(block_size, 1);
  std::fill(slots_.begin(), slots_.end(), Slot());
  std::fill(entries_.begin(), entries_.end(), Entry());
}

bool PrefixIndex::SameKeys(int32_t block,
                           absl::Span<const int64_t> extra_keys) const {
  if (extra_keys_.empty()) return extra_keys.empty();
  return extra_keys ==
         absl::MakeConstSpan(extra_keys_[static_cast<size_t>(block)]);
}

PrefixIndex::Match PrefixIndex::Find(
    uint64_t hash, Identity parent, absl::Span<const int32_t> tokens,
    absl::Span<const int64_t> extra_keys) const {
  DCHECK_EQ(tokens.size(), block_size_);
  const int32_t block = Probe(hash, [&](int32_t candidate) {
    const Entry& e = entry(BlockId(candidate));
    return e.hash == hash && e.parent == parent &&
           std::memcmp(tokens_of(candidate), tokens.data(),
                       block_size_ * sizeof(int32_t)) == 0 &&
           (parent != kRoot || SameKeys(candidate, extra_keys));
  });
  if (block == kNullBlock) return Match();
  return Match{block, entry(BlockId(block)).identity};
}

int32_t PrefixIndex::FindIdentity(uint64_t hash, Identity parent,
                                  Identity identity) const {
  return Probe(hash, [&](int32_t candidate) {
    const Entry& e = entry(BlockId(candidate));
    return e.identity == identity && e.parent == parent;
  });
}

int32_t PrefixIndex::FindInGroup(Identity identity, int32_t group) const {
  return Probe(hasher_.InGroup(identity, group), [&](int32_t candidate) {
    const Entry& e = entry(BlockId(candidate));
    return e.identity == identity && e.parent == GroupParent(group);
  });
}

PrefixIndex::Identity PrefixIndex::Add(BlockId block, uint64_t hash,
                                       Identity parent,
                                       absl::Span<const int32_t> tokens,
                                       absl::Span<const int64_t> extra_keys) {
  const Match existing = Find(hash, parent, tokens, extra_keys);
  const Identity identity =
      existing.found() ? existing.identity : NewIdentity();
  const int32_t id = block.value();
  std::copy(tokens.begin(), tokens.end(),
            tokens_.data() + static_cast<size_t>(id) * block_size_);
  if (parent == kRoot && !extra_keys.empty() && extra_keys_.empty()) {
    extra_keys_.resize(entries_.size());
  }
  // Those of a block further on are never looked at.
  if (parent == kRoot && !extra_keys_.empty()) {
    extra_keys_[static_cast<size_t>(id)].assign(extra_keys.begin(),
                                                extra_keys.end());
  }
  Link(id, hash, parent, identity, existing.block);
  return identity;
}

void PrefixIndex::AddToGroup(BlockId block, Identity identity, int32_t group) {
  Link(block.value(), hasher_.InGroup(identity, group), GroupParent(group),
       identity, FindInGroup(identity, group));
}

void PrefixIndex::Link(int32_t block, uint64_t hash, Identity parent,
                       Identity identity, int32_t first) {
  DCHECK(!Contains(BlockId(block)));
  Entry& e = entry(block);
  e = Entry{hash, parent, identity, block, block};
  if (first == kNullBlock) {
    PlaceInSlot(hash, block);
  } else {
    // Before the first is the end of the ring.
    e.next = first;
    e.previous = entry(first).previous;
    entry(e.previous).next = block;
    entry(first).previous = block;
  }
  ++size_;
  ++version_;
}

void PrefixIndex::Erase(BlockId block) {
  DCHECK(Contains(block));
  const int32_t id = block.value();
  Entry& e = entry(id);
  if (e.next == id) {
    EmptySlot(SlotOf(e.hash, id));
  } else {
    const size_t slot = SlotOf(e.hash, id);
    if (slot < slots_.size()) slots_[slot].block = e.next;
    entry(e.next).previous = e.previous;
    entry(e.previous).next = e.next;
  }
  e.next = kNullBlock;
  --size_;
  ++version_;
}

void PrefixIndex::PlaceInSlot(uint64_t hash, int32_t block) {
  uint32_t i = static_cast<uint32_t>(hash) & slot_mask_;
  while (slots_[i].block != kNullBlock) i = (i + 1) & slot_mask_;
  slots_[i] = Slot{static_cast<uint32_t>(hash), block};
}

size_t PrefixIndex::SlotOf(uint64_t hash, int32_t block) const {
  uint32_t i = static_cast<uint32_t>(hash) & slot_mask_;
  while (slots_[i].block != block) {
    if (slots_[i].block == kNullBlock) return slots_.size();
    i = (i + 1) & slot_mask_;
  }
  return i;
}

void PrefixIndex::EmptySlot(size_t slot) {
  DCHECK_LT(slot, slots_.size());
  uint32_t hole = static_cast<uint32_t>(slot);
  for (uint32_t i = hole;;) {
    i = (i + 1) & slot_mask_;
    if (slots_[i].block == kNullBlock) break;
    // An entry may move back as far as the slot its hash leads to.
    const uint32_t home = slots_[i].tag & slot_mask_;
    if (((i - home) & slot_mask_) >= ((i - hole) & slot_mask_)) {
      slots_[hole] = slots_[i];
      hole = i;
    }
  }
  slots_[hole] = Slot();
}

void PrefixIndex::Clear() {
  std::fill(slots_.begin(), slots_.end(), Slot());
  for (Entry& e : entries_) e.next = kNullBlock;
  size_ = 0;
  ++version_;
}

absl::Status PrefixIndex::CheckInvariants() const {
  int64_t indexed = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const int32_t block = static_cast<int32_t>(i);
    const Entry& e = entries_[i];
    if (e.next == kNullBlock) continue;
    ++indexed;
    if (entry(BlockId(e.next)).previous != block ||
        entry(BlockId(e.next)).identity != e.identity) {
      return absl::InternalError(
          absl::StrCat("block ", block, " is not linked to its likes"));
    }
    // From any block of a ring the one in the slot must be reachable.
    int32_t first = block;
    while (SlotOf(e.hash, first) == slots_.size()) {
      first = entry(BlockId(first)).next;
      if (first == block) {
        return absl::InternalError(
            absl::StrCat("block ", block, " is indexed but can't be found"));
      }
    }
  }
  int64_t occupied = 0;
  for (const Slot& slot : slots_) {
    if (slot.block == kNullBlock) continue;
    ++occupied;
    if (static_cast<uint32_t>(entry(BlockId(slot.block)).hash) != slot.tag ||
        !Contains(BlockId(slot.block))) {
      return absl::InternalError(
          absl::StrCat("a slot holds block ", slot.block, " wrongly"));
    }
  }
  if (indexed != size_ || occupied > size_) {
    return absl::InternalError(absl::StrCat(size_, " blocks are counted, ",
                                            indexed, " are indexed in ",
                                            occupied, " slots"));
  }
  return absl::OkStatus();
}

}  // namespace interleave::cache
