#include "cache/kv_cache_model.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "cache/kv_cache_manager.h"

namespace interleave::cache {

KvCacheModel::KvCacheModel(const KvCacheOptions& options)
    : block_size_(options.block_size),
      caching_(options.enable_prefix_caching),
      groups_(options.groups) {
  if (groups_.empty()) groups_.emplace_back();
  while (primary_ < NumGroups() &&
         groups_[static_cast<size_t>(primary_)].window != 0) {
    ++primary_;
  }
  if (primary_ == NumGroups()) primary_ = 0;
  for (int32_t i = 0; i < options.num_blocks; ++i) device_.free.push_back(i);
  for (int32_t i = 0; i < options.num_host_blocks; ++i) host_.free.push_back(i);
  device_.references.resize(static_cast<size_t>(options.num_blocks));
  host_.references.resize(static_cast<size_t>(options.num_host_blocks));
}

int64_t KvCacheModel::Blocks(int64_t num_tokens) const {
  int64_t blocks = 0;
  while (blocks * block_size_ < num_tokens) ++blocks;
  return blocks;
}

bool KvCacheModel::Live(int32_t id) const {
  const auto it = sequences_.find(id);
  return it != sequences_.end() && !it->second.swapped;
}

int32_t KvCacheModel::Take(Pool& pool) {
  const int32_t block = pool.free.front();
  pool.free.pop_front();
  pool.references[static_cast<size_t>(block)] = 1;
  if (&pool == &device_) cached_.erase(block);
  return block;
}

void KvCacheModel::Drop(Pool& pool, int32_t block) {
  if (--pool.references[static_cast<size_t>(block)] == 0) {
    pool.free.push_back(block);
  }
}

void KvCacheModel::Touch(int32_t block) {
  if (device_.references[static_cast<size_t>(block)]++ == 0) {
    device_.free.erase(
        std::find(device_.free.begin(), device_.free.end(), block));
  }
}

int32_t KvCacheModel::Create(int64_t promised) {
  int32_t id = next_id_;
  if (unused_.empty()) {
    ++next_id_;
  } else {
    id = unused_.back();
    unused_.pop_back();
  }
  sequences_[id].promised = promised;
  sequences_[id].tables.resize(groups_.size());
  return id;
}

void KvCacheModel::ReleaseAll(Sequence& s) {
  for (std::vector<int32_t>& table : s.tables) {
    for (; !table.empty(); table.pop_back()) {
      if (table.back() != kNullBlock) {
        Drop(s.swapped ? host_ : device_, table.back());
      }
    }
  }
  s.num_tokens = 0;
  s.registered.clear();
  s.swapped = false;
}

Outcome::Code KvCacheModel::Destroy(int32_t id) {
  if (Release(id) != Outcome::kOk) return Outcome::kInvalid;
  sequences_.erase(id);
  unused_.push_back(id);
  return Outcome::kOk;
}

Outcome::Code KvCacheModel::Release(int32_t id) {
  if (sequences_.count(id) == 0) return Outcome::kInvalid;
  ReleaseAll(sequences_[id]);
  return Outcome::kOk;
}

bool KvCacheModel::TailIsShared(const Sequence& s, size_t group) const {
  return device_.references[static_cast<size_t>(s.tables[group].back())] > 1;
}

int64_t KvCacheModel::CopyNeed(const Sequence& s, int64_t num_tokens) const {
  if (num_tokens <= s.num_tokens || s.num_tokens % block_size_ == 0) return 0;
  int64_t need = 0;
  for (size_t g = 0; g < groups_.size(); ++g) need += TailIsShared(s, g);
  return need;
}

void KvCacheModel::CopyTail(Sequence& s, Copies& copies) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (!TailIsShared(s, g)) continue;
    const int32_t own = Take(device_);
    copies.emplace_back(s.tables[g].back(), own);
    Drop(device_, s.tables[g].back());
    s.tables[g].back() = own;
  }
}

int64_t KvCacheModel::GrowNeed(int32_t id, int64_t num_tokens) const {
  const Sequence& s = sequences_.at(id);
  const int64_t size = static_cast<int64_t>(s.tables[0].size());
  return std::max<int64_t>(0, Blocks(num_tokens) - size) * NumGroups() +
         CopyNeed(s, num_tokens);
}

Outcome::Code KvCacheModel::Grow(int32_t id, int64_t num_tokens,
                                 Copies& copies) {
  if (!Live(id)) return Outcome::kInvalid;
  Sequence& s = sequences_[id];
  if (num_tokens < s.num_tokens || num_tokens > s.promised) {
    return Outcome::kInvalid;
  }
  if (GrowNeed(id, num_tokens) > NumFree()) return Outcome::kNoSpace;
  if (CopyNeed(s, num_tokens) > 0) CopyTail(s, copies);
  for (std::vector<int32_t>& table : s.tables) {
    while (static_cast<int64_t>(table.size()) < Blocks(num_tokens)) {
      table.push_back(Take(device_));
    }
  }
  s.num_tokens = num_tokens;
  return Outcome::kOk;
}

Outcome::Code KvCacheModel::GrowByBlocks(const std::vector<int32_t>& ids,
                                         int64_t count) {
  if (count < 1 || count > static_cast<int64_t>(device_.references.size()))
    return Outcome::kInvalid;
  const std::set<int32_t> distinct(ids.begin(), ids.end());
  if (distinct.size() != ids.size()) return Outcome::kInvalid;
  for (const int32_t id : ids) {
    if (!Live(id)) return Outcome::kInvalid;
    const Sequence& s = sequences_[id];
    const int64_t next =
        (static_cast<int64_t>(s.tables[0].size()) + count - 1) * block_size_ +
        1;
    if (next > s.promised || CopyNeed(s, next) > 0) return Outcome::kInvalid;
  }
  if (static_cast<int64_t>(ids.size()) * NumGroups() * count > NumFree()) {
    return Outcome::kNoSpace;
  }
  for (const int32_t id : ids) {
    Sequence& s = sequences_[id];
    s.num_tokens =
        (static_cast<int64_t>(s.tables[0].size()) + count - 1) * block_size_ +
        1;
    for (std::vector<int32_t>& table : s.tables) {
      for (int64_t i = 0; i < count; ++i) table.push_back(Take(device_));
    }
  }
  return Outcome::kOk;
}

bool KvCacheModel::Note(Sequence& s, int64_t num_tokens) {
  if (num_tokens <= s.num_tokens) return true;
  if (num_tokens > static_cast<int64_t>(s.tables[0].size()) * block_size_ ||
      num_tokens > s.promised || CopyNeed(s, num_tokens) > 0) {
    return false;
  }
  s.num_tokens = num_tokens;
  return true;
}

// A block is unread once its last token is before the first one that the query
// at position `num_computed` reads.
Outcome::Code KvCacheModel::Drop(int32_t id, int64_t num_computed) {
  if (!Live(id) || !Note(sequences_[id], num_computed)) {
    return Outcome::kInvalid;
  }
  Sequence& s = sequences_[id];
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].window == 0) continue;
    const int64_t first_read = num_computed - groups_[g].window + 1;
    for (int64_t i = static_cast<int64_t>(s.tables[g].size()) - 1; i >= 0;
         --i) {
      int32_t& block = s.tables[g][static_cast<size_t>(i)];
      if ((i + 1) * block_size_ > first_read || block == kNullBlock) continue;
      Drop(device_, block);
      block = kNullBlock;
    }
  }
  return Outcome::kOk;
}

Outcome::Code KvCacheModel::Fork(int32_t parent, int64_t num_tokens,
                                 int32_t& child, Copies& copies) {
  if (!Live(parent) || num_tokens < 0) return Outcome::kInvalid;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const std::vector<int32_t>& table = sequences_[parent].tables[g];
    for (size_t i = 0; i < table.size(); ++i) {
      const int64_t block_end = (static_cast<int64_t>(i) + 1) * block_size_;
      if (table[i] == kNullBlock &&
          block_end > num_tokens - groups_[g].window + 1) {
        return Outcome::kInvalid;
      }
    }
  }
  if (!Note(sequences_[parent], num_tokens)) return Outcome::kInvalid;
  const bool partial = num_tokens % block_size_ != 0;
  const bool copy = partial && num_tokens < sequences_[parent].num_tokens;
  if (copy && NumGroups() > NumFree()) return Outcome::kNoSpace;
  child = Create(KvCacheManager::kNoPromise);
  const Sequence& p = sequences_[parent];
  Sequence& c = sequences_[child];
  c.num_tokens = num_tokens;
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (int64_t i = 0; i < Blocks(num_tokens); ++i) {
      c.tables[g].push_back(p.tables[g][static_cast<size_t>(i)]);
      if (c.tables[g].back() != kNullBlock) Touch(c.tables[g].back());
    }
  }
  if (copy) CopyTail(c, copies);
  if (static_cast<int64_t>(p.registered.size()) <= num_tokens / block_size_) {
    c.registered = p.registered;
  }
  return Outcome::kOk;
}

// ---- Prefix caching ----

const std::pair<const int32_t, KvCacheModel::Cached>* KvCacheModel::FindContent(
    int64_t parent, const Tokens& tokens, const Keys& keys) const {
  const std::pair<const int32_t, Cached>* found = nullptr;
  for (const auto& entry : cached_) {
    const Cached& c = entry.second;
    if (c.group != primary_ || c.parent != parent || c.tokens != tokens ||
        (parent == 0 && c.keys != keys)) {
      continue;
    }
    if (found == nullptr || c.order < found->second.order) found = &entry;
  }
  return found;
}

int32_t KvCacheModel::FindInGroup(int64_t identity, int64_t group) const {
  int32_t block = kNullBlock;
  for (const auto& [candidate, c] : cached_) {
    if (c.group != group || c.identity != identity) continue;
    if (block == kNullBlock || c.order < cached_.at(block).order) {
      block = candidate;
    }
  }
  return block;
}

int64_t KvCacheModel::Unread(int64_t group, int64_t num_blocks) const {
  const int64_t window = groups_[static_cast<size_t>(group)].window;
  int64_t unread = 0;
  while (window > 0 && unread < num_blocks &&
         (unread + 1) * block_size_ <= num_blocks * block_size_ - window + 1) {
    ++unread;
  }
  return unread;
}

bool KvCacheModel::GroupHas(int64_t group, int64_t end,
                            const std::vector<int64_t>& identities) const {
  for (int64_t i = Unread(group, end); i < end; ++i) {
    if (FindInGroup(identities[static_cast<size_t>(i)], group) == kNullBlock) {
      return false;
    }
  }
  return true;
}

KvCacheModel::Hit KvCacheModel::Find(const Tokens& tokens,
                                     const Keys& keys) const {
  Hit hit;
  hit.blocks.resize(groups_.size());
  if (!caching_) return hit;
  std::vector<int32_t> chain;
  int64_t parent = 0;
  const int64_t size = static_cast<int64_t>(tokens.size());
  for (int64_t end = block_size_; end < size; end += block_size_) {
    const auto* const found = FindContent(
        parent,
        Tokens(tokens.begin() + end - block_size_, tokens.begin() + end), keys);
    if (found == nullptr) break;
    chain.push_back(found->first);
    parent = found->second.identity;
    hit.identities.push_back(parent);
  }
  int64_t n = static_cast<int64_t>(chain.size());
  const auto all_have = [&] {
    for (int64_t g = 0; g < NumGroups(); ++g) {
      if (g != primary_ && !GroupHas(g, n, hit.identities)) return false;
    }
    return true;
  };
  while (n > 0 && !all_have()) --n;
  hit.num_blocks = n;
  hit.identities.resize(static_cast<size_t>(n));
  for (int64_t g = 0; g < NumGroups(); ++g) {
    std::vector<int32_t>& blocks = hit.blocks[static_cast<size_t>(g)];
    for (int64_t i = 0; i < n; ++i) {
      const size_t k = static_cast<size_t>(i);
      blocks.push_back(i < Unread(g, n) ? kNullBlock
                       : g == primary_  ? chain[k]
                                        : FindInGroup(hit.identities[k], g));
    }
  }
  return hit;
}

int64_t KvCacheModel::LongestByContent(const Tokens& tokens,
                                       const Keys& keys) const {
  int64_t n = 0;
  for (int64_t end = block_size_; end < static_cast<int64_t>(tokens.size());
       end += block_size_, ++n) {
    const Tokens prefix(tokens.begin(), tokens.begin() + end);
    const bool found =
        std::any_of(cached_.begin(), cached_.end(), [&](const auto& entry) {
          const Cached& c = entry.second;
          return c.group == primary_ && c.prefix == prefix && c.keys == keys;
        });
    if (!found) break;
  }
  return n;
}

int64_t KvCacheModel::AdmitNeed(const Hit& hit, int64_t num_tokens) const {
  int64_t need =
      std::max<int64_t>(0, Blocks(num_tokens) - hit.num_blocks) * NumGroups();
  for (const std::vector<int32_t>& blocks : hit.blocks) {
    for (const int32_t block : blocks) {
      need += block != kNullBlock &&
              device_.references[static_cast<size_t>(block)] == 0;
    }
  }
  return need;
}

Outcome::Code KvCacheModel::Admit(int32_t id, const Hit& hit,
                                  int64_t num_tokens) {
  if (!Live(id)) return Outcome::kInvalid;
  Sequence& s = sequences_[id];
  if (s.num_tokens != 0 || num_tokens < hit.num_blocks * block_size_ ||
      num_tokens > s.promised) {
    return Outcome::kInvalid;
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (size_t i = 0; i < hit.blocks[g].size(); ++i) {
      const int32_t block = hit.blocks[g][i];
      if (block == kNullBlock) continue;
      const auto it = cached_.find(block);
      if (it == cached_.end() || it->second.identity != hit.identities[i] ||
          it->second.group != static_cast<int64_t>(g)) {
        return Outcome::kInvalid;
      }
    }
  }
  if (AdmitNeed(hit, num_tokens) > NumFree()) return Outcome::kNoSpace;
  for (size_t g = 0; g < groups_.size(); ++g) {
    s.tables[g] = hit.blocks[g];
    for (const int32_t block : hit.blocks[g]) {
      if (block != kNullBlock) Touch(block);
    }
  }
  s.registered = hit.identities;
  Copies none;
  return Grow(id, num_tokens, none);
}

Outcome::Code KvCacheModel::Register(int32_t id, const Tokens& tokens,
                                     const Keys& keys, int64_t num_computed) {
  if (!Live(id) || !Note(sequences_[id], num_computed)) {
    return Outcome::kInvalid;
  }
  if (!caching_) return Outcome::kOk;
  Sequence& s = sequences_[id];
  while ((static_cast<int64_t>(s.registered.size()) + 1) * block_size_ <=
         num_computed) {
    const size_t i = s.registered.size();
    const auto begin = tokens.begin() + static_cast<int64_t>(i) * block_size_;
    const Tokens content(begin, begin + block_size_);
    const int64_t parent = i == 0 ? 0 : s.registered.back();
    const auto* const found = FindContent(parent, content, keys);
    int64_t identity =
        found != nullptr ? found->second.identity : next_identity_;
    const int32_t block = s.tables[static_cast<size_t>(primary_)][i];
    if (block != kNullBlock && IsCached(block)) {
      identity = cached_.at(block).identity;
    } else if (block != kNullBlock) {
      cached_[block] = Cached{next_order_++,
                              primary_,
                              parent,
                              identity,
                              content,
                              keys,
                              Tokens(tokens.begin(), begin + block_size_)};
    }
    if (identity == next_identity_) ++next_identity_;
    s.registered.push_back(identity);
    for (int64_t g = 0; g < NumGroups(); ++g) {
      const int32_t other = s.tables[static_cast<size_t>(g)][i];
      if (g == primary_ || other == kNullBlock || IsCached(other)) continue;
      cached_[other] = Cached{next_order_++, g, -1, identity, {}, {}, {}};
    }
  }
  return Outcome::kOk;
}

bool KvCacheModel::Reset() {
  if (device_.free.size() != device_.references.size()) return false;
  cached_.clear();
  return true;
}

// ---- Host tier ----

int64_t KvCacheModel::FreedBy(int32_t id) const {
  int64_t freed = 0;
  if (!Live(id)) return 0;
  for (const std::vector<int32_t>& table : sequences_.at(id).tables) {
    for (const int32_t block : table) {
      freed += block != kNullBlock &&
               device_.references[static_cast<size_t>(block)] == 1;
    }
  }
  return freed;
}

Outcome::Code KvCacheModel::SwapOut(int32_t id, Copies& copies) {
  if (!Live(id)) return Outcome::kInvalid;
  Sequence& s = sequences_[id];
  size_t held = 0;
  for (const std::vector<int32_t>& table : s.tables) {
    held += table.size() - static_cast<size_t>(std::count(
                               table.begin(), table.end(), kNullBlock));
  }
  if (held > host_.free.size()) return Outcome::kNoSpace;
  for (std::vector<int32_t>& table : s.tables) {
    const std::vector<int32_t> before = table;
    for (int32_t& block : table) {
      if (block == kNullBlock) continue;
      const int32_t to = Take(host_);
      copies.emplace_back(block, to);
      block = to;
    }
    for (size_t i = before.size(); i-- > 0;) {
      if (before[i] != kNullBlock) Drop(device_, before[i]);
    }
  }
  s.swapped = true;
  return Outcome::kOk;
}

Outcome::Code KvCacheModel::SwapIn(int32_t id, Copies& copies) {
  if (sequences_.count(id) == 0 || Live(id)) return Outcome::kInvalid;
  Sequence& s = sequences_[id];
  int64_t held = 0;
  for (const std::vector<int32_t>& table : s.tables) {
    held += std::count_if(table.begin(), table.end(),
                          [](int32_t b) { return b != kNullBlock; });
  }
  if (held > NumFree()) return Outcome::kNoSpace;
  for (std::vector<int32_t>& table : s.tables) {
    const std::vector<int32_t> before = table;
    for (int32_t& block : table) {
      if (block == kNullBlock) continue;
      const int32_t to = Take(device_);
      copies.emplace_back(block, to);
      block = to;
    }
    for (size_t i = before.size(); i-- > 0;) {
      if (before[i] != kNullBlock) Drop(host_, before[i]);
    }
  }
  s.registered.clear();
  s.swapped = false;
  return Outcome::kOk;
}

}  // namespace interleave::cache
