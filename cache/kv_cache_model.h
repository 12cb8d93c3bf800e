// KvCacheModel: what KvCacheManager should do, in the plainest way: lists that
// are searched, no hashes, nothing incremental.  It predicts outcomes, tables
// down to the block ids, and the order of the free list.
//
// For tests.

#ifndef CACHE_KV_CACHE_MODEL_H_
#define CACHE_KV_CACHE_MODEL_H_

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "cache/kv_cache_manager.h"

namespace interleave::cache {

class KvCacheModel {
 public:
  using Tokens = std::vector<int32_t>;
  using Keys = std::vector<int64_t>;
  using Copies = std::vector<std::pair<int32_t, int32_t>>;

  struct Hit {
    int64_t num_blocks = 0;
    // [group][block]
    std::vector<std::vector<int32_t>> blocks;
    std::vector<int64_t> identities;
  };

  struct Sequence {
    bool swapped = false;
    int64_t num_tokens = 0;
    int64_t promised = 0;
    std::vector<std::vector<int32_t>> tables;
    // Identity of the content of each registered block.
    std::vector<int64_t> registered;
  };

  explicit KvCacheModel(const KvCacheOptions& options);

  int32_t Create(int64_t promised);
  Outcome::Code Destroy(int32_t id);
  Outcome::Code Grow(int32_t id, int64_t num_tokens, Copies& copies);
  Outcome::Code GrowByBlocks(const std::vector<int32_t>& ids, int64_t count);
  Outcome::Code Drop(int32_t id, int64_t num_computed);
  Outcome::Code Release(int32_t id);
  Outcome::Code Fork(int32_t parent, int64_t num_tokens, int32_t& child,
                     Copies& copies);
  // `tokens`: all of the sequence's.
  Hit Find(const Tokens& tokens, const Keys& keys) const;
  Outcome::Code Admit(int32_t id, const Hit& hit, int64_t num_tokens);
  Outcome::Code Register(int32_t id, const Tokens& tokens, const Keys& keys,
                         int64_t num_computed);
  bool Reset();
  Outcome::Code SwapOut(int32_t id, Copies& copies);
  Outcome::Code SwapIn(int32_t id, Copies& copies);

  int64_t GrowNeed(int32_t id, int64_t num_tokens) const;
  int64_t AdmitNeed(const Hit& hit, int64_t num_tokens) const;
  int64_t FreedBy(int32_t id) const;
  bool Live(int32_t id) const;

  const std::map<int32_t, Sequence>& sequences() const { return sequences_; }
  const std::deque<int32_t>& free() const { return device_.free; }
  const std::deque<int32_t>& host_free() const { return host_.free; }
  const std::vector<int32_t>& references() const { return device_.references; }
  bool IsCached(int32_t block) const { return cached_.count(block) > 0; }
  // The blocks of the primary group that hold the prefix, found by comparing
  // all of it.
  int64_t LongestByContent(const Tokens& tokens, const Keys& keys) const;

 private:
  struct Pool {
    std::deque<int32_t> free;
    std::vector<int32_t> references;
  };
  struct Cached {
    int64_t order;
    int64_t group;
    int64_t parent;
    int64_t identity;
    Tokens tokens;
    Keys keys;
    // From the sequence's start, for LongestByContent.
    Tokens prefix;
  };

  int64_t Blocks(int64_t num_tokens) const;
  int64_t NumFree() const { return static_cast<int64_t>(device_.free.size()); }
  int64_t NumGroups() const { return static_cast<int64_t>(groups_.size()); }
  int32_t Take(Pool& pool);
  void Drop(Pool& pool, int32_t block);
  void Touch(int32_t block);
  bool TailIsShared(const Sequence& s, size_t group) const;
  int64_t CopyNeed(const Sequence& s, int64_t num_tokens) const;
  void CopyTail(Sequence& s, Copies& copies);
  void ReleaseAll(Sequence& s);
  bool Note(Sequence& s, int64_t num_tokens);
  const std::pair<const int32_t, Cached>* FindContent(int64_t parent,
                                                      const Tokens& tokens,
                                                      const Keys& keys) const;
  int32_t FindInGroup(int64_t identity, int64_t group) const;
  bool GroupHas(int64_t group, int64_t end,
                const std::vector<int64_t>& identities) const;
  int64_t Unread(int64_t group, int64_t num_blocks) const;

  const int64_t block_size_;
  const bool caching_;
  std::vector<CacheGroup> groups_;
  int64_t primary_ = 0;
  Pool device_;
  Pool host_;
  std::map<int32_t, Cached> cached_;
  std::map<int32_t, Sequence> sequences_;
  std::vector<int32_t> unused_;
  int32_t next_id_ = 0;
  int64_t next_identity_ = 1;
  int64_t next_order_ = 0;
};

}  // namespace interleave::cache

#endif  // CACHE_KV_CACHE_MODEL_H_
