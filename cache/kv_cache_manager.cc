#include "cache/kv_cache_manager.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/numeric/bits.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "cache/block_pool.h"
#include "cache/block_table.h"
#include "cache/prefix_index.h"
#include "cache/sliding_window.h"
#include "cache/token_source.h"

namespace interleave::cache {
namespace {

// Blocks whose tokens are read and whose index entries are loaded together.
constexpr int64_t kBatch = 32;
// A first batch is small, since most look-ups end with the first block.
constexpr int64_t kFirstBatch = 4;
// Evicted blocks that are taken out of the index together.
constexpr size_t kEvictBatch = 32;
constexpr int64_t kMaxGroups = 64;
// A table's memory is counted in 32 bits.
constexpr int64_t kMaxBlockSize = int64_t{1} << 20;

int ShiftOf(int64_t block_size) {
  const uint64_t size = static_cast<uint64_t>(block_size);
  return absl::has_single_bit(size) ? absl::countr_zero(size) : -1;
}

int64_t PrimaryOf(absl::Span<const CacheGroup> groups) {
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].window == 0) return static_cast<int64_t>(i);
  }
  return 0;
}

absl::Status CheckRange(absl::string_view what, int64_t value, int64_t least,
                        int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      what, " is ", value, "; it must be from ", least, " to ", most));
}

// The leading entries of a hit that its window leaves unread.
int64_t Unread(const CacheGroup& group, int64_t num_blocks,
               int64_t block_size) {
  if (group.window == 0) return 0;
  return BlocksOutsideWindow(num_blocks * block_size, group.window, block_size);
}

}  // namespace

// ---- Making one ----

absl::StatusOr<std::unique_ptr<KvCacheManager>> KvCacheManager::Create(
    const KvCacheOptions& options) {
  RETURN_IF_ERROR(
      CheckRange("num_blocks", options.num_blocks, 1, BlockPool::kMaxBlocks));
  RETURN_IF_ERROR(
      CheckRange("block_size", options.block_size, 1, kMaxBlockSize));
  RETURN_IF_ERROR(CheckRange("num_host_blocks", options.num_host_blocks, 0,
                             BlockPool::kMaxBlocks));
  RETURN_IF_ERROR(CheckRange("the number of groups",
                             static_cast<int64_t>(options.groups.size()), 0,
                             kMaxGroups));
  for (const CacheGroup& group : options.groups) {
    if (group.window < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("a group's window is ", group.window,
                       "; it must be positive, or 0 for all tokens"));
    }
  }
  return absl::WrapUnique(new KvCacheManager(options));
}

KvCacheManager::KvCacheManager(const KvCacheOptions& options)
    : block_size_(options.block_size),
      block_shift_(ShiftOf(options.block_size)),
      groups_(options.groups.empty() ? std::vector<CacheGroup>(1)
                                     : options.groups),
      num_groups_(static_cast<int64_t>(groups_.size())),
      primary_(PrimaryOf(groups_)),
      pool_(options.num_blocks),
      host_pool_(options.num_host_blocks) {
  if (options.enable_prefix_caching) {
    index_ = std::make_unique<PrefixIndex>(options.num_blocks, block_size_);
    scratch_tokens_.resize(static_cast<size_t>(kBatch * block_size_));
  }
}

// ---- Capacity ----

int64_t KvCacheManager::Missing(int64_t size, int64_t num_tokens) const {
  return std::min(BlocksFor(num_tokens), BlockPool::kMaxBlocks + 1) - size;
}

int64_t KvCacheManager::CopiesNeeded(SequenceId id, int64_t num_tokens) const {
  const Sequence& s = sequence(id);
  if (pool_.num_shared() == 0 || num_tokens <= s.num_tokens ||
      s.num_tokens % block_size_ == 0) {
    return 0;
  }
  int64_t copies = 0;
  for (int64_t g = 0; g < num_groups_; ++g) {
    copies += pool_.ref_count(BlockId(table(id, g).all().back())) > 1;
  }
  return copies;
}

int64_t KvCacheManager::BlocksNeeded(SequenceId id, int64_t num_tokens) const {
  if (!IsLive(id)) return 0;
  return std::max<int64_t>(0, Missing(table(id, 0).size, num_tokens)) *
             num_groups_ +
         CopiesNeeded(id, num_tokens);
}

int64_t KvCacheManager::TouchCost(const PrefixHit& hit) const {
  int64_t cost = 0;
  for (const int32_t block : hit.blocks) {
    if (block == kNullBlock || !pool_.Contains(BlockId(block))) continue;
    cost += pool_.ref_count(BlockId(block)) == 0;
  }
  return cost;
}

int64_t KvCacheManager::BlocksNeeded(const PrefixHit& hit,
                                     int64_t num_tokens) const {
  return std::max<int64_t>(0, Missing(hit.num_blocks, num_tokens)) *
             num_groups_ +
         TouchCost(hit);
}

Fit KvCacheManager::CanGrow(SequenceId id, int64_t num_tokens,
                            int64_t reserved_blocks) const {
  if (!IsLive(id)) return Fit::kNever;
  const Sequence& s = sequence(id);
  if (num_tokens < s.num_tokens || num_tokens > s.promised_tokens) {
    return Fit::kNever;
  }
  const int64_t needed = BlocksNeeded(id, num_tokens);
  if (needed + reserved_blocks <= pool_.num_free()) return Fit::kOk;
  // A copy of a shared block takes the place of the one shared.
  const int64_t in_the_end =
      s.held + needed - CopiesNeeded(id, num_tokens) + reserved_blocks;
  return in_the_end <= pool_.num_blocks() ? Fit::kLater : Fit::kNever;
}

Fit KvCacheManager::CanAdmit(const PrefixHit& hit, int64_t num_tokens,
                             int64_t reserved_blocks) const {
  if (num_tokens < hit.num_tokens) return Fit::kNever;
  const int64_t needed = BlocksNeeded(hit, num_tokens);
  if (needed + reserved_blocks <= pool_.num_free()) return Fit::kOk;
  const int64_t unread =
      std::count(hit.blocks.begin(), hit.blocks.end(), kNullBlock);
  const int64_t in_the_end = Missing(0, num_tokens) * num_groups_ - unread;
  return in_the_end + reserved_blocks <= pool_.num_blocks() ? Fit::kLater
                                                            : Fit::kNever;
}

bool KvCacheManager::Take(int64_t count, int32_t* out) {
  if (index_ == nullptr) return pool_.AllocateInto(count, out);
  // What the index reads of a block is far from what it reads of the one
  // before, so it is asked for some blocks ahead.
  std::array<BlockId, kEvictBatch> evicted;
  size_t size = 0;
  const auto forget = [&] {
    for (size_t i = 0; i < size; ++i) {
      index_->Prefetch(index_->hash(evicted[i]));
    }
    for (size_t i = 0; i < size; ++i) index_->Erase(evicted[i]);
    size = 0;
  };
  const bool taken = pool_.AllocateInto(count, out, [&](BlockId block) {
    index_->PrefetchEntry(block);
    evicted[size++] = block;
    if (size == evicted.size()) forget();
  });
  forget();
  return taken;
}

// ---- Misuse ----

Outcome KvCacheManager::Refuse(absl::Status why) const {
  refused_ = std::move(why);
  return Outcome::kInvalid;
}

Outcome KvCacheManager::RefuseSequence(SequenceId id) const {
  if (!Exists(id)) {
    return Refuse(
        absl::NotFoundError(absl::StrCat("there is no sequence ", id.value())));
  }
  return Refuse(absl::InvalidArgumentError(
      absl::StrCat("sequence ", id.value(), " is swapped out")));
}

Outcome KvCacheManager::CheckGrowth(SequenceId id, int64_t num_tokens) const {
  const Sequence& s = sequence(id);
  if (num_tokens < s.num_tokens) {
    return Refuse(absl::InvalidArgumentError(
        absl::StrCat("sequence ", id.value(), " has ", s.num_tokens,
                     " tokens; it can't shrink to ", num_tokens)));
  }
  if (num_tokens > s.promised_tokens) {
    return Refuse(absl::InvalidArgumentError(absl::StrCat(
        "sequence ", id.value(), " promised to stay at ", s.promised_tokens,
        " tokens; it can't have ", num_tokens)));
  }
  return Outcome::kOk;
}

Outcome KvCacheManager::NoteTokens(SequenceId id, int64_t num_tokens) {
  Sequence& s = sequence(id);
  if (num_tokens <= s.num_tokens) return Outcome::kOk;
  if (num_tokens > table(id, 0).size * block_size_) {
    return Refuse(absl::InvalidArgumentError(absl::StrCat(
        "sequence ", id.value(), " has no room for ", num_tokens, " tokens")));
  }
  if (const Outcome growth = CheckGrowth(id, num_tokens); !growth) {
    return growth;
  }
  if (CopiesNeeded(id, num_tokens) > 0) {
    return Refuse(absl::InvalidArgumentError(
        absl::StrCat("the last block of sequence ", id.value(),
                     " is shared; Grow must copy it before a token is added")));
  }
  s.num_tokens = num_tokens;
  return Outcome::kOk;
}

absl::Status KvCacheManager::AsStatus(Outcome outcome) const {
  switch (outcome.code()) {
    case Outcome::kOk:
      return absl::OkStatus();
    case Outcome::kNoSpace:
      return absl::ResourceExhaustedError(
          absl::StrCat("not enough blocks: ", free_blocks(), " of ",
                       num_blocks(), " are free, ", free_host_blocks(), " of ",
                       num_host_blocks(), " on the host"));
    case Outcome::kInvalid:
      return refused_;
  }
  return absl::InternalError("an outcome that does not exist");
}

// ---- Sequences ----

SequenceId KvCacheManager::CreateSequence(int64_t promised_tokens) {
  SequenceId id;
  if (unused_.empty()) {
    id = SequenceId(static_cast<int32_t>(sequences_.size()));
    sequences_.emplace_back();
    tables_.resize(tables_.size() + static_cast<size_t>(num_groups_));
    unused_.reserve(sequences_.capacity());
  } else {
    id = unused_.back();
    unused_.pop_back();
  }
  Sequence& s = sequence(id);
  s = Sequence();
  s.promised_tokens = promised_tokens;
  s.state = State::kLive;
  return id;
}

Outcome KvCacheManager::DestroySequence(SequenceId id) {
  if (!Exists(id)) return RefuseSequence(id);
  ReleaseBlocks(id);
  for (int64_t g = 0; g < num_groups_; ++g) arena_.Free(table(id, g));
  sequence(id).state = State::kUnused;
  unused_.push_back(id);
  return Outcome::kOk;
}

int64_t KvCacheManager::BlocksFreedBy(SequenceId id) const {
  const Sequence& s = sequence(id);
  if (s.state != State::kLive) return 0;
  if (pool_.num_shared() == 0) return s.held;
  int64_t freed = 0;
  for (int64_t g = 0; g < num_groups_; ++g) {
    for (const int32_t block : table(id, g).held()) {
      freed += pool_.ref_count(BlockId(block)) == 1;
    }
  }
  return freed;
}

// ---- Growing and giving back ----

void KvCacheManager::Append(SequenceId id, int64_t count) {
  if (count <= 0) return;
  for (int64_t g = 0; g < num_groups_; ++g) {
    BlockTable& t = table(id, g);
    arena_.Reserve(t, t.size + count);
    const bool taken = Take(count, t.blocks + t.size);
    CHECK(taken);
    t.size += static_cast<int32_t>(count);
  }
  sequence(id).held += static_cast<int32_t>(count * num_groups_);
}

void KvCacheManager::CopySharedTail(SequenceId id,
                                    std::vector<BlockCopy>* copies) {
  for (int64_t g = 0; g < num_groups_; ++g) {
    BlockTable& t = table(id, g);
    int32_t& last = t.blocks[t.size - 1];
    if (pool_.ref_count(BlockId(last)) == 1) continue;
    const int32_t shared = last;
    const bool taken = Take(1, &last);
    CHECK(taken);
    if (copies != nullptr) copies->push_back(BlockCopy{shared, last});
    const absl::Status released = pool_.Release({&shared, 1});
    CHECK(released.ok());
  }
}

Outcome KvCacheManager::Grow(SequenceId id, int64_t num_tokens,
                             std::vector<BlockCopy>* copies) {
  if (!IsLive(id)) return RefuseSequence(id);
  if (const Outcome growth = CheckGrowth(id, num_tokens); !growth) {
    return growth;
  }
  const int64_t missing = Missing(table(id, 0).size, num_tokens);
  const int64_t own = CopiesNeeded(id, num_tokens);
  if (missing * num_groups_ + own > pool_.num_free()) return Outcome::kNoSpace;
  if (own > 0) CopySharedTail(id, copies);
  Append(id, missing);
  sequence(id).num_tokens = num_tokens;
  return Outcome::kOk;
}

Outcome KvCacheManager::GrowByBlocks(absl::Span<const SequenceId> ids,
                                     int64_t count) {
  if (count < 1 || count > num_blocks()) {
    return Refuse(absl::InvalidArgumentError(
        absl::StrCat("count is ", count, "; it must be from 1 to num_blocks, ",
                     num_blocks())));
  }
  ++bulk_operations_;
  for (const SequenceId id : ids) {
    if (!IsLive(id)) return RefuseSequence(id);
    Sequence& s = sequence(id);
    if (s.listed_in == bulk_operations_) {
      return Refuse(absl::InvalidArgumentError(
          absl::StrCat("sequence ", id.value(), " is listed twice")));
    }
    s.listed_in = bulk_operations_;
    const int64_t num_tokens =
        (table(id, 0).size + count - 1) * block_size_ + 1;
    if (num_tokens > s.promised_tokens) return CheckGrowth(id, num_tokens);
    if (CopiesNeeded(id, num_tokens) > 0) {
      return Refuse(absl::InvalidArgumentError(absl::StrCat(
          "the last block of sequence ", id.value(),
          " is shared and partly filled; Grow must copy it first")));
    }
  }
  const int64_t tables = static_cast<int64_t>(ids.size()) * num_groups_;
  // The first comparison keeps the product in range.
  if (tables > free_blocks() || tables * count > free_blocks()) {
    return Outcome::kNoSpace;
  }
  const int64_t total = tables * count;
  if (static_cast<int64_t>(scratch_blocks_.size()) < total) {
    scratch_blocks_.resize(static_cast<size_t>(total));
  }
  const bool taken = Take(total, scratch_blocks_.data());
  CHECK(taken);
  const int32_t* next = scratch_blocks_.data();
  for (const SequenceId id : ids) {
    Sequence& s = sequence(id);
    s.num_tokens = (table(id, 0).size + count - 1) * block_size_ + 1;
    s.held += static_cast<int32_t>(count * num_groups_);
    for (int64_t g = 0; g < num_groups_; ++g) {
      BlockTable& t = table(id, g);
      arena_.Reserve(t, t.size + count);
      for (int64_t i = 0; i < count; ++i) t.blocks[t.size++] = *next++;
    }
  }
  return Outcome::kOk;
}

Outcome KvCacheManager::DropOutsideWindow(SequenceId id, int64_t num_computed) {
  if (!IsLive(id)) return RefuseSequence(id);
  if (const Outcome noted = NoteTokens(id, num_computed); !noted) return noted;
  for (int64_t g = 0; g < num_groups_; ++g) {
    const int64_t window = groups_[static_cast<size_t>(g)].window;
    if (window == 0) continue;
    BlockTable& t = table(id, g);
    const int64_t outside =
        BlocksOutsideWindow(num_computed, window, block_size_);
    if (outside <= t.dropped) continue;
    const size_t count = static_cast<size_t>(outside - t.dropped);
    const absl::Status released =
        pool_.ReleaseTailFirst(t.held().subspan(0, count));
    CHECK(released.ok());
    std::fill_n(t.blocks + t.dropped, count, kNullBlock);
    sequence(id).held -= static_cast<int32_t>(count);
    t.dropped = static_cast<int32_t>(outside);
  }
  return Outcome::kOk;
}

void KvCacheManager::ReleaseBlocks(SequenceId id) {
  Sequence& s = sequence(id);
  BlockPool& pool = s.state == State::kSwapped ? host_pool_ : pool_;
  for (int64_t g = 0; g < num_groups_; ++g) {
    BlockTable& t = table(id, g);
    const absl::Status released = pool.ReleaseTailFirst(t.held());
    CHECK(released.ok());
    t.size = 0;
    t.dropped = 0;
  }
  s.num_tokens = 0;
  s.held = 0;
  s.registered = 0;
  s.state = State::kLive;
}

Outcome KvCacheManager::Release(SequenceId id) {
  if (!Exists(id)) return RefuseSequence(id);
  ReleaseBlocks(id);
  return Outcome::kOk;
}

Outcome KvCacheManager::Fork(SequenceId parent, int64_t num_tokens,
                             SequenceId* child,
                             std::vector<BlockCopy>* copies) {
  if (!IsLive(parent)) return RefuseSequence(parent);
  if (num_tokens < 0) {
    return Refuse(absl::InvalidArgumentError(
        absl::StrCat("a sequence can't have ", num_tokens, " tokens")));
  }
  for (int64_t g = 0; g < num_groups_; ++g) {
    const int64_t window = groups_[static_cast<size_t>(g)].window;
    if (window != 0 &&
        table(parent, g).dropped >
            BlocksOutsideWindow(num_tokens, window, block_size_)) {
      return Refuse(absl::InvalidArgumentError(absl::StrCat(
          "sequence ", parent.value(), " can't be forked at token ", num_tokens,
          ": blocks that would be read there left the window")));
    }
  }
  if (const Outcome noted = NoteTokens(parent, num_tokens); !noted) {
    return noted;
  }
  const bool copy_now =
      num_tokens % block_size_ != 0 && num_tokens < sequence(parent).num_tokens;
  if (copy_now && num_groups_ > pool_.num_free()) return Outcome::kNoSpace;
  *child = CreateSequence();
  const int64_t size = BlocksFor(num_tokens);
  for (int64_t g = 0; g < num_groups_; ++g) {
    const BlockTable& from = table(parent, g);
    BlockTable& to = table(*child, g);
    arena_.Reserve(to, size);
    to.size = static_cast<int32_t>(size);
    to.dropped = from.dropped;
    std::copy_n(from.blocks, size, to.blocks);
    for (const int32_t block : to.held()) pool_.Touch(BlockId(block));
    sequence(*child).held += to.size - to.dropped;
  }
  if (copy_now) CopySharedTail(*child, copies);
  const Sequence& p = sequence(parent);
  Sequence& c = sequence(*child);
  c.num_tokens = num_tokens;
  // Beyond the fork, what the parent registered is none of the child's.
  if (p.registered <= num_tokens / block_size_) {
    c.registered = p.registered;
    c.hash = p.hash;
    c.identity = p.identity;
  }
  return Outcome::kOk;
}

// ---- Prefix caching ----

void KvCacheManager::ReadBlocks(const TokenSource& tokens, int64_t begin,
                                int64_t count) const {
  tokens.Read(begin * block_size_,
              absl::MakeSpan(scratch_tokens_)
                  .subspan(0, static_cast<size_t>(count * block_size_)));
}

void KvCacheManager::ExtendHashes(int64_t begin, int64_t end,
                                  absl::Span<const int64_t> extra_keys,
                                  BlockHashes& hashes) const {
  const BlockHasher& hasher = index_->hasher();
  for (int64_t i = static_cast<int64_t>(hashes.hashes_.size()); i < end; ++i) {
    const uint64_t parent =
        i == 0 ? hasher.Root(extra_keys) : hashes.hashes_.back();
    hashes.hashes_.push_back(hasher.Next(parent, ScratchTokens(i - begin)));
  }
}

int64_t KvCacheManager::FindChain(const TokenSource& tokens, int64_t limit,
                                  absl::Span<const int64_t> extra_keys,
                                  BlockHashes& hashes,
                                  std::vector<int32_t>& blocks) const {
  std::vector<PrefixIndex::Identity>& identities = hashes.identities_;
  int64_t count = kFirstBatch;
  for (int64_t begin = 0; begin < limit; begin += count, count = kBatch) {
    count = std::min(count, limit - begin);
    const int64_t end = begin + count;
    bool read = false;
    if (static_cast<int64_t>(hashes.hashes_.size()) < end) {
      ReadBlocks(tokens, begin, count);
      read = true;
      ExtendHashes(begin, end, extra_keys, hashes);
    }
    const uint64_t* const hash = hashes.hashes_.data();
    if (!blocks.empty()) blocks.reserve(static_cast<size_t>(limit));
    for (int64_t i = begin; i < end; ++i) index_->Prefetch(hash[i]);
    for (int64_t i = begin; i < end; ++i) index_->PrefetchBlock(hash[i]);
    for (int64_t i = begin; i < end; ++i) {
      const size_t n = static_cast<size_t>(i);
      const PrefixIndex::Identity parent =
          i == 0 ? PrefixIndex::kRoot : identities[n - 1];
      if (n < identities.size()) {
        const int32_t block =
            index_->FindIdentity(hash[i], parent, identities[n]);
        if (block != kNullBlock) {
          blocks.push_back(block);
          continue;
        }
      }
      if (!index_->MayContain(hash[i])) return i;
      if (!read) {
        ReadBlocks(tokens, begin, count);
        read = true;
      }
      const PrefixIndex::Match match =
          index_->Find(hash[i], parent, ScratchTokens(i - begin), extra_keys);
      if (!match.found()) return i;
      // What was known of later contents was about another identity.
      identities.resize(n);
      identities.push_back(match.identity);
      blocks.push_back(match.block);
    }
  }
  return limit;
}

int64_t KvCacheManager::WindowHit(int64_t limit,
                                  const BlockHashes& hashes) const {
  // Each group can only shorten the hit, so this ends; a shorter hit needs
  // other blocks of the groups already asked.
  for (int64_t before = -1; before != limit;) {
    before = limit;
    for (int64_t g = 0; g < num_groups_; ++g) {
      if (g == primary_) continue;
      const int64_t window = groups_[static_cast<size_t>(g)].window;
      const int64_t inside =
          window == 0 ? limit : BlocksInsideWindow(window, block_size_);
      limit = LongestWindowHit(limit, inside, [&](int64_t i) {
        return index_->FindInGroup(hashes.identities_[static_cast<size_t>(i)],
                                   static_cast<int32_t>(g)) != kNullBlock;
      });
    }
  }
  return limit;
}

void KvCacheManager::ListGroups(const std::vector<int32_t>& chain,
                                PrefixHit& hit) const {
  const int64_t n = hit.num_blocks;
  hit.blocks.assign(static_cast<size_t>(n * num_groups_), kNullBlock);
  for (int64_t g = 0; g < num_groups_; ++g) {
    const int64_t unread =
        Unread(groups_[static_cast<size_t>(g)], n, block_size_);
    for (int64_t i = unread; i < n; ++i) {
      const size_t from = static_cast<size_t>(i);
      hit.blocks[static_cast<size_t>(g * n + i)] =
          g == primary_ ? chain[from]
                        : index_->FindInGroup(hit.identities[from],
                                              static_cast<int32_t>(g));
    }
  }
}

PrefixHit KvCacheManager::FindPrefix(
    const TokenSource& tokens, int64_t num_tokens,
    absl::Span<const int64_t> extra_keys) const {
  scratch_hashes_.Clear();
  return FindPrefix(tokens, num_tokens, extra_keys, scratch_hashes_);
}

PrefixHit KvCacheManager::FindPrefix(const TokenSource& tokens,
                                     int64_t num_tokens,
                                     absl::Span<const int64_t> extra_keys,
                                     BlockHashes& hashes) const {
  PrefixHit hit;
  if (index_ == nullptr || num_tokens <= block_size_) return hit;
  const int64_t limit = (num_tokens - 1) / block_size_;
  std::vector<int32_t> chain;
  hit.num_blocks = FindChain(tokens, limit, extra_keys, hashes, chain);
  if (num_groups_ > 1) hit.num_blocks = WindowHit(hit.num_blocks, hashes);
  if (hit.num_blocks == 0) return hit;
  const size_t n = static_cast<size_t>(hit.num_blocks);
  hit.num_tokens = hit.num_blocks * block_size_;
  hit.hash = hashes.hashes_[n - 1];
  hit.identity = hashes.identities_[n - 1];
  if (num_groups_ == 1 && groups_[0].window == 0) {
    hit.blocks = std::move(chain);
    return hit;
  }
  hit.identities.assign(hashes.identities_.begin(),
                        hashes.identities_.begin() + hit.num_blocks);
  ListGroups(chain, hit);
  return hit;
}

bool KvCacheManager::IsCurrent(const PrefixHit& hit) const {
  const int64_t n = hit.num_blocks;
  if (n == 0) return hit.num_tokens == 0 && hit.blocks.empty();
  if (index_ == nullptr || hit.num_tokens != n * block_size_ ||
      static_cast<int64_t>(hit.blocks.size()) != n * num_groups_) {
    return false;
  }
  // A chain that ends with the right identity is the right one from its start.
  PrefixIndex::Identity parent = PrefixIndex::kRoot;
  const bool listed = !hit.identities.empty();
  if (listed && static_cast<int64_t>(hit.identities.size()) != n) return false;
  for (int64_t g = 0; g < num_groups_; ++g) {
    const int64_t unread =
        Unread(groups_[static_cast<size_t>(g)], n, block_size_);
    for (int64_t i = 0; i < n; ++i) {
      const int32_t block = hit.blocks[static_cast<size_t>(g * n + i)];
      if (block == kNullBlock && i < unread) continue;
      const BlockId id(block);
      if (!pool_.Contains(id) || !pool_.is_cached(id)) return false;
      if (!listed) {
        if (index_->parent(id) != parent) return false;
        parent = index_->identity(id);
        continue;
      }
      if (index_->identity(id) != hit.identities[static_cast<size_t>(i)] ||
          (g != primary_ &&
           index_->parent(id) !=
               PrefixIndex::GroupParent(static_cast<int32_t>(g)))) {
        return false;
      }
    }
  }
  return listed ? hit.identities.back() == hit.identity
                : parent == hit.identity;
}

Outcome KvCacheManager::Admit(SequenceId id, const PrefixHit& hit,
                              int64_t num_tokens) {
  if (!IsLive(id)) return RefuseSequence(id);
  if (sequence(id).num_tokens != 0) {
    return Refuse(absl::InvalidArgumentError(absl::StrCat(
        "sequence ", id.value(), " has tokens already; only one without can ",
        "start with a prefix")));
  }
  if (const Outcome growth = CheckGrowth(id, num_tokens); !growth) {
    return growth;
  }
  if (num_tokens < hit.num_tokens || !IsCurrent(hit)) {
    return Refuse(absl::InvalidArgumentError(absl::StrCat(
        "the prefix hit of ", hit.num_tokens, " tokens for a sequence of ",
        num_tokens, " is too long or out of date; look it up again")));
  }
  if (BlocksNeeded(hit, num_tokens) > pool_.num_free()) {
    return Outcome::kNoSpace;
  }
  const int32_t n = static_cast<int32_t>(hit.num_blocks);
  const int64_t size = BlocksFor(num_tokens);
  Sequence& s = sequence(id);
  // All groups' blocks first: what is taken below may evict what is not in use.
  for (int64_t g = 0; g < num_groups_ && n > 0; ++g) {
    BlockTable& t = table(id, g);
    arena_.Reserve(t, size);
    std::copy_n(hit.blocks.data() + g * n, n, t.blocks);
    t.size = n;
    while (t.dropped < n && t.blocks[t.dropped] == kNullBlock) ++t.dropped;
    for (const int32_t block : t.held()) pool_.Touch(BlockId(block));
    s.held += n - t.dropped;
  }
  if (n > 0) {
    s.registered = n;
    s.hash = hit.hash;
    s.identity = hit.identity;
    ++prefix_hits_;
    prefix_hit_tokens_ += hit.num_tokens;
  }
  Append(id, size - n);
  s.num_tokens = num_tokens;
  return Outcome::kOk;
}

void KvCacheManager::RegisterBlock(SequenceId id, uint64_t hash,
                                   absl::Span<const int32_t> tokens,
                                   absl::Span<const int64_t> extra_keys) {
  Sequence& s = sequence(id);
  const int32_t i = s.registered++;
  const PrefixIndex::Identity parent = i == 0 ? PrefixIndex::kRoot : s.identity;
  s.hash = hash;
  const BlockId block(table(id, primary_).blocks[i]);
  if (block.value() == kNullBlock) {
    // It left the window before it was registered.
    const PrefixIndex::Match match =
        index_->Find(s.hash, parent, tokens, extra_keys);
    s.identity = match.found() ? match.identity : index_->NewIdentity();
  } else if (pool_.is_cached(block)) {
    // A sequence that shares the block has registered it.
    s.identity = index_->identity(block);
  } else {
    s.identity = index_->Add(block, s.hash, parent, tokens, extra_keys);
    pool_.set_cached(block, true);
  }
  for (int64_t g = 0; g < num_groups_; ++g) {
    if (g == primary_) continue;
    const BlockId other(table(id, g).blocks[i]);
    if (other.value() == kNullBlock || pool_.is_cached(other)) continue;
    index_->AddToGroup(other, s.identity, static_cast<int32_t>(g));
    pool_.set_cached(other, true);
  }
}

void KvCacheManager::RegisterBatch(SequenceId id, int64_t count,
                                   absl::Span<const int64_t> extra_keys) {
  const Sequence& s = sequence(id);
  const BlockHasher& hasher = index_->hasher();
  const int32_t* const blocks = table(id, primary_).blocks + s.registered;
  uint64_t hashes[kBatch];
  uint64_t hash = s.registered == 0 ? hasher.Root(extra_keys) : s.hash;
  for (int64_t i = 0; i < count; ++i) {
    hash = hashes[i] = hasher.Next(hash, ScratchTokens(i));
    index_->Prefetch(hash);
    if (blocks[i] != kNullBlock) index_->PrefetchEntry(BlockId(blocks[i]));
  }
  for (int64_t i = 0; i < count; ++i) {
    RegisterBlock(id, hashes[i], ScratchTokens(i), extra_keys);
  }
}

Outcome KvCacheManager::RegisterComputed(SequenceId id,
                                         const TokenSource& tokens,
                                         int64_t num_computed,
                                         absl::Span<const int64_t> extra_keys) {
  if (!IsLive(id)) return RefuseSequence(id);
  if (const Outcome noted = NoteTokens(id, num_computed); !noted) return noted;
  if (index_ == nullptr) return Outcome::kOk;
  const int64_t full = num_computed / block_size_;
  for (int64_t begin = sequence(id).registered; begin < full; begin += kBatch) {
    const int64_t count = std::min(kBatch, full - begin);
    ReadBlocks(tokens, begin, count);
    RegisterBatch(id, count, extra_keys);
  }
  return Outcome::kOk;
}

bool KvCacheManager::ResetPrefixCache() {
  if (pool_.num_used() > 0) return false;
  if (index_ == nullptr) return true;
  for (const int32_t block : pool_.FreeOrder()) {
    pool_.set_cached(BlockId(block), false);
  }
  index_->Clear();
  return true;
}

// ---- Host tier ----

Outcome KvCacheManager::SwapOut(SequenceId id, std::vector<BlockCopy>* copies) {
  if (!IsLive(id)) return RefuseSequence(id);
  Sequence& s = sequence(id);
  const size_t held = static_cast<size_t>(s.held);
  if (scratch_blocks_.size() < held) scratch_blocks_.resize(held);
  if (!host_pool_.AllocateInto(s.held, scratch_blocks_.data())) {
    return Outcome::kNoSpace;
  }
  const int32_t* next = scratch_blocks_.data();
  for (int64_t g = 0; g < num_groups_; ++g) {
    BlockTable& t = table(id, g);
    const absl::Status released = pool_.ReleaseTailFirst(t.held());
    CHECK(released.ok());
    for (int32_t i = t.dropped; i < t.size; ++i) {
      if (copies != nullptr) copies->push_back(BlockCopy{t.blocks[i], *next});
      t.blocks[i] = *next++;
    }
  }
  s.state = State::kSwapped;
  return Outcome::kOk;
}

Outcome KvCacheManager::SwapIn(SequenceId id, std::vector<BlockCopy>* copies) {
  if (!Exists(id)) return RefuseSequence(id);
  Sequence& s = sequence(id);
  if (s.state != State::kSwapped) {
    return Refuse(absl::InvalidArgumentError(
        absl::StrCat("sequence ", id.value(), " is not swapped out")));
  }
  const size_t held = static_cast<size_t>(s.held);
  if (scratch_blocks_.size() < held) scratch_blocks_.resize(held);
  if (!Take(s.held, scratch_blocks_.data())) return Outcome::kNoSpace;
  const int32_t* next = scratch_blocks_.data();
  for (int64_t g = 0; g < num_groups_; ++g) {
    BlockTable& t = table(id, g);
    const absl::Status released = host_pool_.ReleaseTailFirst(t.held());
    CHECK(released.ok());
    for (int32_t i = t.dropped; i < t.size; ++i) {
      if (copies != nullptr) copies->push_back(BlockCopy{t.blocks[i], *next});
      t.blocks[i] = *next++;
    }
  }
  // The contents are in other blocks now, which no one has registered.
  s.registered = 0;
  s.state = State::kLive;
  return Outcome::kOk;
}

// ---- Looking inside ----

KvCacheStats KvCacheManager::stats() const {
  KvCacheStats stats;
  stats.num_blocks = num_blocks();
  stats.used_blocks = used_blocks();
  stats.peak_used_blocks = peak_used_blocks();
  stats.cached_blocks = index_ == nullptr ? 0 : index_->size();
  stats.shared_blocks = pool_.num_shared();
  stats.used_host_blocks = host_pool_.num_used();
  stats.evictions = pool_.num_evictions();
  stats.prefix_hits = prefix_hits_;
  stats.prefix_hit_tokens = prefix_hit_tokens_;
  for (int64_t i = 0; i < pool_.num_blocks() && index_ != nullptr; ++i) {
    const BlockId block(static_cast<int32_t>(i));
    stats.evictable_blocks +=
        pool_.is_cached(block) && pool_.ref_count(block) == 0;
  }
  for (size_t i = 0; i < sequences_.size(); ++i) {
    const SequenceId id(static_cast<int32_t>(i));
    const Sequence& s = sequences_[i];
    stats.num_sequences += s.state != State::kUnused;
    if (s.state != State::kLive) continue;
    stats.unfilled_slots +=
        num_groups_ * (table(id, 0).size * block_size_ - s.num_tokens);
  }
  return stats;
}

absl::Status KvCacheManager::CheckSequence(
    SequenceId id, std::vector<int32_t>& references,
    std::vector<int32_t>& host_references) const {
  const Sequence& s = sequence(id);
  const auto broken = [id](absl::string_view what) {
    return absl::InternalError(
        absl::StrCat("sequence ", id.value(), " ", what));
  };
  std::vector<int32_t>& counts =
      s.state == State::kSwapped ? host_references : references;
  int64_t held = 0;
  for (int64_t g = 0; g < num_groups_; ++g) {
    const BlockTable& t = table(id, g);
    if (t.size != BlocksFor(s.num_tokens)) {
      return broken("has a table of the wrong length (I5)");
    }
    if (t.dropped > 0 && groups_[static_cast<size_t>(g)].window == 0) {
      return broken("dropped blocks of a group that keeps all (I5)");
    }
    for (int32_t i = 0; i < t.size; ++i) {
      const int32_t block = t.blocks[i];
      if ((block == kNullBlock) != (i < t.dropped)) {
        return broken("lacks a block that did not leave the window (I5)");
      }
      if (block == kNullBlock) continue;
      if (block < 0 || static_cast<size_t>(block) >= counts.size()) {
        return broken("lists a block that does not exist (I2)");
      }
      ++held;
      ++counts[static_cast<size_t>(block)];
      if (s.state == State::kLive && i >= s.num_tokens / block_size_ &&
          pool_.is_cached(BlockId(block))) {
        return broken("has a cached block that is not full (I4)");
      }
    }
  }
  if (held != s.held) return broken("miscounts its blocks (I2)");
  if (s.registered > s.num_tokens / block_size_) {
    return broken("registered a block that is not full (I4)");
  }
  return absl::OkStatus();
}

absl::Status KvCacheManager::CheckInvariants() const {
  RETURN_IF_ERROR(pool_.CheckInvariants());
  RETURN_IF_ERROR(host_pool_.CheckInvariants());
  if (index_ != nullptr) RETURN_IF_ERROR(index_->CheckInvariants());
  std::vector<int32_t> references(static_cast<size_t>(pool_.num_blocks()));
  std::vector<int32_t> host(static_cast<size_t>(host_pool_.num_blocks()));
  for (size_t i = 0; i < sequences_.size(); ++i) {
    const SequenceId id(static_cast<int32_t>(i));
    if (!Exists(id)) continue;
    RETURN_IF_ERROR(CheckSequence(id, references, host));
  }
  const auto agrees = [](const BlockPool& pool,
                         const std::vector<int32_t>& counts) {
    for (size_t i = 0; i < counts.size(); ++i) {
      const BlockId block(static_cast<int32_t>(i));
      if (pool.ref_count(block) != counts[i]) {
        return absl::InternalError(absl::StrCat(
            "block ", block.value(), " has ", pool.ref_count(block),
            " references and stands in ", counts[i], " tables (I2)"));
      }
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(agrees(pool_, references));
  RETURN_IF_ERROR(agrees(host_pool_, host));
  for (int64_t i = 0; i < pool_.num_blocks(); ++i) {
    const BlockId block(static_cast<int32_t>(i));
    if (pool_.is_cached(block) !=
        (index_ != nullptr && index_->Contains(block))) {
      return absl::InternalError(absl::StrCat(
          "block ", block.value(), " is cached or indexed, not both (I3)"));
    }
  }
  return absl::OkStatus();
}

}  // namespace interleave::cache
