#include "cache/kv_cache_ops.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "cache/block_pool.h"
#include "cache/kv_cache_manager.h"
#include "cache/kv_cache_model.h"
#include "cache/token_source.h"

namespace interleave::cache {
namespace {

constexpr int64_t kNumStreams = 8;
constexpr int64_t kMaxTokens = 40;
constexpr size_t kOldHits = 4;

// Streams share beginnings: the first six tokens are common to all, the next
// six to four of them, and so on.
std::vector<int32_t> StreamTokens(int64_t stream, int64_t count) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back(
        static_cast<int32_t>(stream >> std::max<int64_t>(0, 3 - i / 6)));
  }
  return tokens;
}

absl::Status Differs(absl::string_view what, int64_t got, int64_t expected) {
  if (got == expected) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(what, " is ", got, ", the model says ", expected));
}

}  // namespace

KvCacheOps::KvCacheOps(const KvCacheOptions& options)
    : options_(options), model_(options) {
  auto cache = KvCacheManager::Create(options);
  CHECK(cache.ok());
  cache_ = *std::move(cache);
}

KvCacheOptions KvCacheOps::ReadOptions(OpReader& reader) {
  KvCacheOptions options;
  options.num_blocks = 1 + reader.Next(32);
  options.block_size = 1 + reader.Next(5);
  options.enable_prefix_caching = reader.Next(4) != 0;
  options.num_host_blocks = reader.Next(20);
  for (int64_t i = reader.Next(4); i > 0; --i) {
    options.groups.push_back(CacheGroup{reader.Next(2) * reader.Next(12)});
  }
  return options;
}

SequenceId KvCacheOps::Pick(OpReader& reader) const {
  // Now and then one that does not exist.
  return SequenceId(static_cast<int32_t>(reader.Next(10)) - 1);
}

absl::Status KvCacheOps::Same(absl::string_view what, Outcome outcome,
                              Outcome::Code expected) {
  ++counts_[outcome.code()];
  if (!outcome && cache_->AsStatus(outcome).ok()) {
    return absl::InternalError("a failure has no message");
  }
  return Differs(what, outcome.code(), expected);
}

absl::Status KvCacheOps::SameCopies(
    const std::vector<BlockCopy>& copies,
    const KvCacheModel::Copies& expected) const {
  RETURN_IF_ERROR(Differs("the number of copies",
                          static_cast<int64_t>(copies.size()),
                          static_cast<int64_t>(expected.size())));
  for (size_t i = 0; i < copies.size(); ++i) {
    RETURN_IF_ERROR(
        Differs("a copy's source", copies[i].source, expected[i].first));
    RETURN_IF_ERROR(Differs("a copy's destination", copies[i].destination,
                            expected[i].second));
  }
  return absl::OkStatus();
}

void KvCacheOps::Create(OpReader& reader) {
  const int64_t promised = reader.Next(4) == 0 ? reader.Next(kMaxTokens)
                                               : KvCacheManager::kNoPromise;
  if (users_.size() >= 8) return;
  const SequenceId id = cache_->CreateSequence(promised);
  CHECK_EQ(id.value(), model_.Create(promised));
  User user;
  user.stream = reader.Next(kNumStreams);
  if (reader.Next(4) == 0) user.keys = {7, reader.Next(2)};
  users_[id.value()] = user;
}

absl::Status KvCacheOps::Grow(OpReader& reader) {
  const SequenceId id = Pick(reader);
  const int64_t num_tokens = reader.Next(kMaxTokens + 1);
  int64_t needed = -1;
  int64_t free = cache_->free_blocks();
  Fit fit = Fit::kNever;
  if (model_.Live(id.value())) {
    needed = model_.GrowNeed(id.value(), num_tokens);
    RETURN_IF_ERROR(
        Differs("BlocksNeeded", cache_->BlocksNeeded(id, num_tokens), needed));
    fit = cache_->CanGrow(id, num_tokens);
  }
  std::vector<BlockCopy> copies;
  KvCacheModel::Copies expected;
  const Outcome outcome = cache_->Grow(id, num_tokens, &copies);
  RETURN_IF_ERROR(
      Same("Grow", outcome, model_.Grow(id.value(), num_tokens, expected)));
  RETURN_IF_ERROR(SameCopies(copies, expected));
  RETURN_IF_ERROR(Differs("CanGrow", fit == Fit::kOk, outcome));
  if (outcome) {
    RETURN_IF_ERROR(
        Differs("what Grow took", free - cache_->free_blocks(), needed));
  }
  return absl::OkStatus();
}

absl::Status KvCacheOps::GrowByBlocks(OpReader& reader) {
  std::vector<SequenceId> ids;
  std::vector<int32_t> expected;
  const int64_t chosen = reader.Next(256);
  for (const auto& [id, user] : users_) {
    if ((chosen >> (id % 8) & 1) == 0) continue;
    if (!model_.Live(id) && reader.Next(4) != 0) continue;
    ids.emplace_back(id);
    expected.push_back(id);
  }
  if (reader.Next(16) == 1) {
    ids.push_back(Pick(reader));
    expected.push_back(ids.back().value());
  }
  const int64_t count = reader.Next(8) == 0 ? reader.Next(5) - 1 : 1;
  return Same("GrowByBlocks", cache_->GrowByBlocks(ids, count),
              model_.GrowByBlocks(expected, count));
}

absl::Status KvCacheOps::Fork(OpReader& reader) {
  const SequenceId parent = Pick(reader);
  int64_t num_tokens = reader.Next(kMaxTokens) - 1;
  if (reader.Next(2) == 0 && cache_->Exists(parent)) {
    num_tokens = cache_->num_tokens(parent);
  }
  if (users_.size() >= 8) return absl::OkStatus();
  SequenceId child;
  int32_t expected_child = 0;
  std::vector<BlockCopy> copies;
  KvCacheModel::Copies expected;
  const Outcome outcome = cache_->Fork(parent, num_tokens, &child, &copies);
  RETURN_IF_ERROR(
      Same("Fork", outcome,
           model_.Fork(parent.value(), num_tokens, expected_child, expected)));
  RETURN_IF_ERROR(SameCopies(copies, expected));
  if (!outcome) return absl::OkStatus();
  users_[child.value()] = users_[parent.value()];
  return Differs("the child", child.value(), expected_child);
}

absl::Status KvCacheOps::SameHit(const PrefixHit& hit,
                                 const KvCacheModel::Hit& expected) const {
  RETURN_IF_ERROR(Differs("the hit", hit.num_blocks, expected.num_blocks));
  RETURN_IF_ERROR(Differs("the hit's tokens", hit.num_tokens,
                          expected.num_blocks * options_.block_size));
  size_t next = 0;
  for (const std::vector<int32_t>& blocks : expected.blocks) {
    for (const int32_t block : blocks) {
      RETURN_IF_ERROR(Differs("a block of the hit", hit.blocks[next++], block));
    }
  }
  return Differs("the hit's length", static_cast<int64_t>(hit.blocks.size()),
                 static_cast<int64_t>(next));
}

absl::Status KvCacheOps::FindAndAdmit(OpReader& reader) {
  const SequenceId id = Pick(reader);
  const int64_t num_tokens = reader.Next(kMaxTokens + 1);
  if (users_.count(id.value()) == 0) return absl::OkStatus();
  User& user = users_[id.value()];
  const std::vector<int32_t> tokens = StreamTokens(user.stream, num_tokens);
  const SpanTokenSource source(tokens);
  OldHit old;
  old.stream = user.stream;
  old.keys = user.keys;
  old.hit = cache_->FindPrefix(source, num_tokens, user.keys, user.hashes);
  old.expected = model_.Find(tokens, user.keys);
  RETURN_IF_ERROR(SameHit(old.hit, old.expected));
  RETURN_IF_ERROR(
      SameHit(cache_->FindPrefix(source, num_tokens, user.keys), old.expected));
  const bool one_full_group =
      options_.groups.empty() ||
      (options_.groups.size() == 1 && options_.groups[0].window == 0);
  if (one_full_group && options_.enable_prefix_caching) {
    RETURN_IF_ERROR(Differs("the hit", old.hit.num_blocks,
                            model_.LongestByContent(tokens, user.keys)));
  }
  hits_ += old.hit.num_blocks > 0;
  if (old_hits_.size() < kOldHits) {
    old_hits_.push_back(old);
  } else {
    old_hits_[static_cast<size_t>(num_performed_) % kOldHits] = old;
  }
  return Admit(id, old, num_tokens);
}

absl::Status KvCacheOps::AdmitOld(OpReader& reader) {
  const SequenceId id = Pick(reader);
  const size_t which = static_cast<size_t>(reader.Next(kOldHits));
  const int64_t num_tokens = reader.Next(kMaxTokens + 1);
  if (which >= old_hits_.size()) return absl::OkStatus();
  const OldHit& old = old_hits_[which];
  if (users_.count(id.value()) > 0 &&
      (users_[id.value()].stream != old.stream ||
       users_[id.value()].keys != old.keys)) {
    return absl::OkStatus();
  }
  return Admit(id, old, num_tokens);
}

absl::Status KvCacheOps::Admit(SequenceId id, const OldHit& old,
                               int64_t num_tokens) {
  const int64_t needed = model_.AdmitNeed(old.expected, num_tokens);
  RETURN_IF_ERROR(Differs("BlocksNeeded of a hit",
                          cache_->BlocksNeeded(old.hit, num_tokens), needed));
  const Fit fit = cache_->CanAdmit(old.hit, num_tokens);
  const int64_t free = cache_->free_blocks();
  const Outcome outcome = cache_->Admit(id, old.hit, num_tokens);
  RETURN_IF_ERROR(Same("Admit", outcome,
                       model_.Admit(id.value(), old.expected, num_tokens)));
  if (outcome == Outcome::kInvalid) return absl::OkStatus();
  RETURN_IF_ERROR(Differs("CanAdmit", fit == Fit::kOk, outcome));
  if (!outcome) return absl::OkStatus();
  return Differs("what Admit took", free - cache_->free_blocks(), needed);
}

absl::Status KvCacheOps::Register(OpReader& reader) {
  const SequenceId id = Pick(reader);
  int64_t num_computed = reader.Next(2 * kMaxTokens);
  if (reader.Next(2) == 0 && cache_->Exists(id)) {
    num_computed = cache_->num_tokens(id);
  }
  const User user = users_.count(id.value()) > 0 ? users_[id.value()] : User();
  const std::vector<int32_t> tokens = StreamTokens(user.stream, num_computed);
  return Same("RegisterComputed",
              cache_->RegisterComputed(id, SpanTokenSource(tokens),
                                       num_computed, user.keys),
              model_.Register(id.value(), tokens, user.keys, num_computed));
}

absl::Status KvCacheOps::Swap(OpReader& reader, bool out) {
  const SequenceId id = Pick(reader);
  std::vector<BlockCopy> copies;
  KvCacheModel::Copies expected;
  const int64_t need = cache_->Exists(id) ? cache_->SwapInNeed(id) : 0;
  const Outcome outcome =
      out ? cache_->SwapOut(id, &copies) : cache_->SwapIn(id, &copies);
  RETURN_IF_ERROR(Same("a swap", outcome,
                       out ? model_.SwapOut(id.value(), expected)
                           : model_.SwapIn(id.value(), expected)));
  if (outcome && !out) {
    RETURN_IF_ERROR(
        Differs("SwapInNeed", need, static_cast<int64_t>(copies.size())));
  }
  return SameCopies(copies, expected);
}

absl::Status KvCacheOps::Perform(OpReader& reader) {
  ++num_performed_;
  absl::Status status;
  const int64_t op = reader.Next(32);
  if (op < 4) {
    Create(reader);
  } else if (op < 10) {
    status = Grow(reader);
  } else if (op < 13) {
    status = GrowByBlocks(reader);
  } else if (op < 15) {
    status = Fork(reader);
  } else if (op < 20) {
    status = FindAndAdmit(reader);
  } else if (op < 21) {
    status = AdmitOld(reader);
  } else if (op < 25) {
    status = Register(reader);
  } else if (op < 26) {
    status = Swap(reader, /*out=*/true);
  } else if (op < 27) {
    status = Swap(reader, /*out=*/false);
  } else if (op < 28) {
    const SequenceId id = Pick(reader);
    const int64_t num_computed = reader.Next(kMaxTokens);
    status =
        Same("DropOutsideWindow", cache_->DropOutsideWindow(id, num_computed),
             model_.Drop(id.value(), num_computed));
  } else if (op < 30) {
    const SequenceId id = Pick(reader);
    status = Same("Release", cache_->Release(id), model_.Release(id.value()));
  } else if (op < 31) {
    const SequenceId id = Pick(reader);
    users_.erase(id.value());
    status = Same("DestroySequence", cache_->DestroySequence(id),
                  model_.Destroy(id.value()));
  } else {
    status =
        Differs("ResetPrefixCache", cache_->ResetPrefixCache(), model_.Reset());
  }
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(cache_->CheckInvariants());
  return Compare();
}

absl::Status KvCacheOps::Compare() const {
  const std::vector<int32_t> free = cache_->pool().FreeOrder();
  RETURN_IF_ERROR(Differs("free_blocks", cache_->free_blocks(),
                          static_cast<int64_t>(model_.free().size())));
  for (size_t i = 0; i < free.size(); ++i) {
    RETURN_IF_ERROR(Differs("a free block", free[i], model_.free()[i]));
  }
  RETURN_IF_ERROR(Differs("free_host_blocks", cache_->free_host_blocks(),
                          static_cast<int64_t>(model_.host_free().size())));
  for (int32_t i = 0; i < options_.num_blocks; ++i) {
    const BlockId block(i);
    RETURN_IF_ERROR(Differs("a reference count",
                            cache_->pool().ref_count(block),
                            model_.references()[static_cast<size_t>(i)]));
    RETURN_IF_ERROR(Differs("whether a block is cached",
                            cache_->pool().is_cached(block),
                            model_.IsCached(i)));
  }
  for (const auto& [id, s] : model_.sequences()) {
    const SequenceId name(id);
    RETURN_IF_ERROR(
        Differs("num_tokens", cache_->num_tokens(name), s.num_tokens));
    RETURN_IF_ERROR(Differs("BlocksFreedBy", cache_->BlocksFreedBy(name),
                            model_.FreedBy(id)));
    if (s.swapped) continue;
    for (size_t g = 0; g < s.tables.size(); ++g) {
      const absl::Span<const int32_t> table =
          cache_->block_table(name, static_cast<int64_t>(g));
      if (table != absl::MakeConstSpan(s.tables[g])) {
        return absl::InternalError(
            absl::StrCat("the table of sequence ", id, " differs"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace interleave::cache
