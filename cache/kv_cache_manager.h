// KvCacheManager: the block tables of the sequences of one replica, over one
// pool of blocks, with prefix caching, copy on write, a host tier and
// sliding-window groups.
//
//   KvCacheOptions options;
//   options.num_blocks = 10000;
//   options.enable_prefix_caching = true;
//   ASSIGN_OR_RETURN(auto cache, KvCacheManager::Create(options));
//   const SequenceId id = cache->CreateSequence();
//   const PrefixHit hit = cache->FindPrefix(tokens, num_tokens);
//   if (!cache->Admit(id, hit, num_tokens)) ...     // not enough blocks
//   ... compute tokens [hit.num_tokens, num_tokens) ...
//   cache->RegisterComputed(id, tokens, num_tokens);
//   ... cache->Grow(id, num_tokens + 1), and so on ...
//   cache->DestroySequence(id);
//
// A sequence of n tokens holds ceil(n / block_size) blocks in each group; what
// it takes to grow is what BlocksNeeded says, exactly.  Tables are append-only:
// a block in a table stays there, whatever else holds the same content.
//
// Every operation is all or nothing.  Outcome::kNoSpace is a normal answer;
// kInvalid is misuse (a sequence that does not exist, shrinking, growing past
// what was promised, a hit that is out of date): nothing has changed then
// either, and AsStatus says why.
//
// Invariants, which CheckInvariants() verifies:
//   I1  what BlockPool and PrefixIndex guarantee;
//   I2  a block's reference count is how often tables list it;
//   I3  a block is marked as cached exactly when the index holds it;
//   I4  of a sequence, only full blocks are cached;
//   I5  a table lists ceil(num_tokens / block_size) blocks, those that left the
//       window as kNullBlock and at its front;
//   I6  only the last block of a table is partly filled, and a partly filled
//       block that is shared is copied before a token is added to it.
//
// In steady state nothing is allocated, FindPrefix's results excepted.
//
// Not thread-safe.

#ifndef CACHE_KV_CACHE_MANAGER_H_
#define CACHE_KV_CACHE_MANAGER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/strong_int.h"
#include "cache/block_pool.h"
#include "cache/block_table.h"
#include "cache/prefix_index.h"
#include "cache/token_source.h"

namespace interleave::cache {

// Name of a sequence: a dense index, used again after DestroySequence.
using SequenceId = StrongInt<struct SequenceIdTag, int32_t>;

// Layers that keep the same tokens.  All groups take blocks from one pool.
struct CacheGroup {
  // A query reads itself and the window - 1 tokens before it; 0: all tokens.
  int64_t window = 0;
};

struct KvCacheOptions {
  int64_t num_blocks = 0;
  // Tokens in a block.
  int64_t block_size = 16;
  bool enable_prefix_caching = false;
  // Blocks of the host tier, for SwapOut.
  int64_t num_host_blocks = 0;
  // None: one group that keeps all tokens.
  std::vector<CacheGroup> groups;
};

// Result of an operation; true if it was carried out.
class Outcome {
 public:
  enum Code : uint8_t { kOk, kNoSpace, kInvalid };

  // Implicit, both, so that call sites read `if (!cache.Grow(...))`.
  constexpr Outcome(Code code) : code_(code) {}
  constexpr operator bool() const { return code_ == kOk; }

  constexpr Code code() const { return code_; }
  friend constexpr bool operator==(Outcome a, Outcome b) {
    return a.code_ == b.code_;
  }
  friend constexpr bool operator==(Outcome a, Code b) { return a.code_ == b; }

 private:
  Code code_;
};

// Whether something fits: now, after others have released blocks, or not even
// into an empty cache.
enum class Fit : uint8_t { kOk, kLater, kNever };

// Cached blocks that a sequence could start with.
struct PrefixHit {
  // A multiple of the block size, and less than the sequence's tokens.
  int64_t num_tokens = 0;
  int64_t num_blocks = 0;
  // num_blocks entries for each group; kNullBlock where the window leaves it
  // unread.
  std::vector<int32_t> blocks;
  // Of the last block's content.
  uint64_t hash = 0;
  PrefixIndex::Identity identity = PrefixIndex::kRoot;
  // Of each block's content; empty where there is one group.
  std::vector<PrefixIndex::Identity> identities;
};

// What has been found out about the leading blocks of one sequence, so that
// looking it up again neither hashes nor compares tokens.  Only ever used with
// the same tokens (more may be appended) and extra keys; else Clear().
class BlockHashes {
 public:
  void Clear() {
    hashes_.clear();
    identities_.clear();
  }

 private:
  friend class KvCacheManager;

  std::vector<uint64_t> hashes_;
  // Of the content of leading blocks that once were found.
  std::vector<PrefixIndex::Identity> identities_;
};

// The content of one block is to be copied to another one.
struct BlockCopy {
  int32_t source = kNullBlock;
  int32_t destination = kNullBlock;

  friend bool operator==(const BlockCopy&, const BlockCopy&) = default;
};

struct KvCacheStats {
  int64_t num_blocks = 0;
  int64_t used_blocks = 0;
  int64_t peak_used_blocks = 0;
  // Blocks that can be found by content: in use, and free but not yet reused.
  int64_t cached_blocks = 0;
  int64_t evictable_blocks = 0;
  int64_t shared_blocks = 0;
  int64_t used_host_blocks = 0;
  int64_t num_sequences = 0;
  // Token slots in the blocks of sequences that no token fills (internal
  // fragmentation), as far as the cache was told the number of tokens.
  int64_t unfilled_slots = 0;
  // Since the start.
  int64_t evictions = 0;
  int64_t prefix_hit_tokens = 0;
  int64_t prefix_hits = 0;
};

class KvCacheManager {
 public:
  static constexpr int64_t kNoPromise = std::numeric_limits<int64_t>::max();

  // InvalidArgument names the option that makes no sense.
  static absl::StatusOr<std::unique_ptr<KvCacheManager>> Create(
      const KvCacheOptions& options);
  KvCacheManager(const KvCacheManager&) = delete;
  KvCacheManager& operator=(const KvCacheManager&) = delete;

  // ---- Capacity ----

  int64_t num_blocks() const { return pool_.num_blocks(); }
  int64_t block_size() const { return block_size_; }
  int64_t num_groups() const { return num_groups_; }
  // Blocks that can be had now, evictable cached ones included.
  int64_t free_blocks() const { return pool_.num_free(); }
  int64_t used_blocks() const { return pool_.num_used(); }
  int64_t peak_used_blocks() const { return pool_.peak_used(); }
  int64_t num_host_blocks() const { return host_pool_.num_blocks(); }
  int64_t free_host_blocks() const { return host_pool_.num_free(); }
  // Blocks that `num_tokens` tokens take in one group.
  int64_t BlocksFor(int64_t num_tokens) const {
    if (num_tokens <= 0) return 0;
    return 1 + (block_shift_ >= 0 ? (num_tokens - 1) >> block_shift_
                                  : (num_tokens - 1) / block_size_);
  }

  // Free blocks that Grow(id, num_tokens) takes: exactly, if it is legal.
  int64_t BlocksNeeded(SequenceId id, int64_t num_tokens) const;
  // Free blocks that Admit(·, hit, num_tokens) takes, blocks of the hit that
  // are on the free list included.  O(blocks of the hit).
  int64_t BlocksNeeded(const PrefixHit& hit, int64_t num_tokens) const;

  // Whether Grow(id, num_tokens) would succeed and leave `reserved_blocks`
  // free.  kNever also where Grow would be misuse.
  Fit CanGrow(SequenceId id, int64_t num_tokens,
              int64_t reserved_blocks = 0) const;
  Fit CanAdmit(const PrefixHit& hit, int64_t num_tokens,
               int64_t reserved_blocks = 0) const;

  // ---- Sequences ----

  // A new sequence without blocks, which promises to stay at `promised_tokens`.
  SequenceId CreateSequence(int64_t promised_tokens = kNoPromise);
  // Releases its blocks, and the name.
  Outcome DestroySequence(SequenceId id);

  // REQUIRES, of the following five: the sequence exists.
  //
  // Tokens it was last grown to (or registered as computed): tokens added
  // inside its last block need not be told.
  int64_t num_tokens(SequenceId id) const { return sequence(id).num_tokens; }
  // Blocks it holds, over all groups; 0 while it is swapped out.
  int64_t num_blocks_of(SequenceId id) const {
    const Sequence& s = sequence(id);
    return s.state == State::kLive ? s.held : 0;
  }
  // Blocks that Release would make free: those it shares with no one.  O(1)
  // while no blocks are shared, else O(blocks).
  int64_t BlocksFreedBy(SequenceId id) const;
  // Blocks that SwapIn takes; 0 unless it is swapped out.
  int64_t SwapInNeed(SequenceId id) const {
    const Sequence& s = sequence(id);
    return s.state == State::kSwapped ? s.held : 0;
  }
  // Valid until the next change of the sequence; empty while it is swapped out.
  absl::Span<const int32_t> block_table(SequenceId id,
                                        int64_t group = 0) const {
    if (sequence(id).state != State::kLive) return {};
    return table(id, group).all();
  }
  bool Exists(SequenceId id) const {
    return id.value() >= 0 &&
           static_cast<size_t>(id.value()) < sequences_.size() &&
           sequence(id).state != State::kUnused;
  }

  // ---- Growing and giving back ----
  //
  // `copies`, where taken: copies that must be made are appended to it, and are
  // to be made in that order before the next tokens are computed.  nullptr
  // where there is no memory behind the blocks (a simulation).

  // Makes room for `num_tokens` tokens in all.  If its last block is shared and
  // partly filled, the sequence gets a copy of its own.
  [[nodiscard]] Outcome Grow(SequenceId id, int64_t num_tokens,
                             std::vector<BlockCopy>* copies = nullptr);
  // `count` more blocks, in each group, for each of these sequences, which are
  // distinct: all get theirs or none.  Each then has the tokens that fill all
  // of its blocks but the last, and one more.
  // Misuse: a count below 1 or above num_blocks().
  [[nodiscard]] Outcome GrowByBlocks(absl::Span<const SequenceId> ids,
                                     int64_t count);
  // Gives back the blocks of window groups that nothing computed after the
  // first `num_computed` tokens reads.  Returns kInvalid or kOk.
  Outcome DropOutsideWindow(SequenceId id, int64_t num_computed);
  // Gives back all blocks, on the device or the host, tail first; the sequence
  // stays, with no tokens.  It may have none already.
  Outcome Release(SequenceId id);

  // A new sequence with the first `num_tokens` tokens of `parent`, in the same
  // blocks.  A last block that is partly filled is shared until one of the two
  // grows, if the parent has no more tokens than that, else copied now.
  [[nodiscard]] Outcome Fork(SequenceId parent, int64_t num_tokens,
                             SequenceId* child,
                             std::vector<BlockCopy>* copies = nullptr);

  // ---- Prefix caching ----

  // The longest run of cached blocks that the sequence could start with; not
  // all of its tokens, since the last one must be computed for its output.
  // Empty where prefix caching is off.
  PrefixHit FindPrefix(const TokenSource& tokens, int64_t num_tokens,
                       absl::Span<const int64_t> extra_keys = {}) const;
  PrefixHit FindPrefix(const TokenSource& tokens, int64_t num_tokens,
                       absl::Span<const int64_t> extra_keys,
                       BlockHashes& hashes) const;
  // While this has not changed, neither has what FindPrefix finds.
  int64_t index_version() const {
    return index_ == nullptr ? 0 : index_->version();
  }

  // Starts a sequence that has no tokens with the blocks of a hit and makes
  // room for `num_tokens` in all.
  [[nodiscard]] Outcome Admit(SequenceId id, const PrefixHit& hit,
                              int64_t num_tokens);
  [[nodiscard]] Outcome Acquire(SequenceId id, const PrefixHit& hit) {
    return Admit(id, hit, hit.num_tokens);
  }

  // The first `num_computed` tokens of the sequence are computed: the blocks
  // they fill can be found from now on.  `tokens` and `extra_keys` are those
  // of the sequence.  O(blocks not yet registered).
  Outcome RegisterComputed(SequenceId id, const TokenSource& tokens,
                           int64_t num_computed,
                           absl::Span<const int64_t> extra_keys = {});

  // Forgets all cached content; false, and nothing done, while any block is in
  // use.
  [[nodiscard]] bool ResetPrefixCache();

  // ---- Host tier ----

  // Moves a sequence's blocks to the host, a copy for each (device to host).
  [[nodiscard]] Outcome SwapOut(SequenceId id,
                                std::vector<BlockCopy>* copies = nullptr);
  // And back (host to device).
  [[nodiscard]] Outcome SwapIn(SequenceId id,
                               std::vector<BlockCopy>* copies = nullptr);

  // ---- Looking inside ----

  // OK, ResourceExhausted, or for kInvalid (of the last call that returned it)
  // InvalidArgument or NotFound with the reason.
  absl::Status AsStatus(Outcome outcome) const;

  // O(blocks and sequences).
  KvCacheStats stats() const;
  const BlockPool& pool() const { return pool_; }
  // nullptr where prefix caching is off.
  const PrefixIndex* index() const { return index_.get(); }

  // Internal, naming the invariant, if one is broken.  O(blocks and sequences).
  absl::Status CheckInvariants() const;

 private:
  enum class State : uint8_t { kUnused, kLive, kSwapped };

  struct Sequence {
    int64_t num_tokens = 0;
    int64_t promised_tokens = kNoPromise;
    // Blocks listed, over all groups; of the host where swapped out.
    int32_t held = 0;
    // Leading blocks whose content has an identity; the last one's.
    int32_t registered = 0;
    uint64_t hash = 0;
    PrefixIndex::Identity identity = PrefixIndex::kRoot;
    // Number of the last bulk operation that listed it.
    uint64_t listed_in = 0;
    State state = State::kUnused;
  };

  explicit KvCacheManager(const KvCacheOptions& options);

  Sequence& sequence(SequenceId id) {
    return sequences_[static_cast<size_t>(id.value())];
  }
  const Sequence& sequence(SequenceId id) const {
    return sequences_[static_cast<size_t>(id.value())];
  }
  BlockTable& table(SequenceId id, int64_t group) {
    return tables_[static_cast<size_t>(id.value() * num_groups_ + group)];
  }
  const BlockTable& table(SequenceId id, int64_t group) const {
    return tables_[static_cast<size_t>(id.value() * num_groups_ + group)];
  }
  bool IsLive(SequenceId id) const {
    return id.value() >= 0 &&
           static_cast<size_t>(id.value()) < sequences_.size() &&
           sequence(id).state == State::kLive;
  }

  // Misuse: remembers why.
  Outcome Refuse(absl::Status why) const;
  Outcome RefuseSequence(SequenceId id) const;
  // Why a live sequence can't have `num_tokens` tokens, or kOk.
  Outcome CheckGrowth(SequenceId id, int64_t num_tokens) const;
  // Notes tokens added inside the blocks that a live sequence has.
  Outcome NoteTokens(SequenceId id, int64_t num_tokens);

  // Allocates from the device pool; what is evicted leaves the index.
  bool Take(int64_t count, int32_t* out);
  // Blocks that a table of `size` entries needs in each group for `num_tokens`,
  // cut off above what any pool has.
  int64_t Missing(int64_t size, int64_t num_tokens) const;
  // Blocks of its own that a sequence must be given before tokens are added in
  // its last one.
  int64_t CopiesNeeded(SequenceId id, int64_t num_tokens) const;
  void CopySharedTail(SequenceId id, std::vector<BlockCopy>* copies);
  // Gives each table `count` more blocks, of which there are enough.
  void Append(SequenceId id, int64_t count);
  void ReleaseBlocks(SequenceId id);
  int64_t TouchCost(const PrefixHit& hit) const;

  // Blocks of the primary group, from the first on, that are cached.
  int64_t FindChain(const TokenSource& tokens, int64_t limit,
                    absl::Span<const int64_t> extra_keys, BlockHashes& hashes,
                    std::vector<int32_t>& blocks) const;
  // Hashes of blocks up to `end`; scratch_tokens_ holds those from `begin` on.
  void ExtendHashes(int64_t begin, int64_t end,
                    absl::Span<const int64_t> extra_keys,
                    BlockHashes& hashes) const;
  absl::Span<const int32_t> ScratchTokens(int64_t block) const {
    return absl::MakeConstSpan(scratch_tokens_)
        .subspan(static_cast<size_t>(block * block_size_),
                 static_cast<size_t>(block_size_));
  }
  void ReadBlocks(const TokenSource& tokens, int64_t begin,
                  int64_t count) const;
  // The longest part of a hit that the further groups have too.
  int64_t WindowHit(int64_t limit, const BlockHashes& hashes) const;
  void ListGroups(const std::vector<int32_t>& chain, PrefixHit& hit) const;
  bool IsCurrent(const PrefixHit& hit) const;
  // Registers the next block, whose content has this hash.
  void RegisterBlock(SequenceId id, uint64_t hash,
                     absl::Span<const int32_t> tokens,
                     absl::Span<const int64_t> extra_keys);
  void RegisterBatch(SequenceId id, int64_t count,
                     absl::Span<const int64_t> extra_keys);

  absl::Status CheckSequence(SequenceId id, std::vector<int32_t>& references,
                             std::vector<int32_t>& host_references) const;

  const int64_t block_size_;
  // log2 of block_size_ where that is a power of two, else -1.
  const int block_shift_;
  const std::vector<CacheGroup> groups_;
  const int64_t num_groups_;
  // The group whose blocks give contents their identities: the first that
  // keeps all tokens, if any does.
  const int64_t primary_;

  BlockPool pool_;
  BlockPool host_pool_;
  std::unique_ptr<PrefixIndex> index_;
  BlockTableArena arena_;
  std::vector<Sequence> sequences_;
  // num_groups_ for each sequence.
  std::vector<BlockTable> tables_;
  std::vector<SequenceId> unused_;

  uint64_t bulk_operations_ = 0;
  int64_t prefix_hits_ = 0;
  int64_t prefix_hit_tokens_ = 0;
  // Memory used again by each call.
  std::vector<int32_t> scratch_blocks_;
  mutable std::vector<int32_t> scratch_tokens_;
  mutable BlockHashes scratch_hashes_;
  mutable absl::Status refused_;
};

}  // namespace interleave::cache

#endif  // CACHE_KV_CACHE_MANAGER_H_
