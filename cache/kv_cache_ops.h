// An interpreter of operations on a KvCacheManager, encoded in bytes, that
// carries each one out on a KvCacheModel too and compares everything after it.
// Any bytes are a program.
//
// For tests: a seeded one runs many random programs, a fuzzer looks for one
// that finds a difference.

#ifndef CACHE_KV_CACHE_OPS_H_
#define CACHE_KV_CACHE_OPS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "cache/kv_cache_manager.h"
#include "cache/kv_cache_model.h"

namespace interleave::cache {

// Bytes, and zeros after their end.
class OpReader {
 public:
  explicit OpReader(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}
  bool done() const { return next_ >= bytes_.size(); }
  int64_t Next(int64_t limit) { return done() ? 0 : bytes_[next_++] % limit; }

 private:
  absl::Span<const uint8_t> bytes_;
  size_t next_ = 0;
};

class KvCacheOps {
 public:
  // REQUIRES: `options` are legal.
  explicit KvCacheOps(const KvCacheOptions& options);

  // Some small, legal options.
  static KvCacheOptions ReadOptions(OpReader& reader);

  // One operation.  Internal, with what differs, if the manager breaks an
  // invariant or disagrees with the model.
  absl::Status Perform(OpReader& reader);

  int64_t num_performed() const { return num_performed_; }
  // How often an operation ended so.
  int64_t count(Outcome::Code code) const { return counts_[code]; }
  int64_t hits() const { return hits_; }

 private:
  // What a sequence's tokens are made from, and what a user keeps.
  struct User {
    int64_t stream = 0;
    std::vector<int64_t> keys;
    BlockHashes hashes;
  };
  struct OldHit {
    int64_t stream = 0;
    std::vector<int64_t> keys;
    PrefixHit hit;
    KvCacheModel::Hit expected;
  };

  SequenceId Pick(OpReader& reader) const;
  void Create(OpReader& reader);
  absl::Status Grow(OpReader& reader);
  absl::Status GrowByBlocks(OpReader& reader);
  absl::Status Fork(OpReader& reader);
  absl::Status FindAndAdmit(OpReader& reader);
  absl::Status AdmitOld(OpReader& reader);
  absl::Status Register(OpReader& reader);
  absl::Status Swap(OpReader& reader, bool out);
  absl::Status Admit(SequenceId id, const OldHit& old, int64_t num_tokens);
  absl::Status SameHit(const PrefixHit& hit,
                       const KvCacheModel::Hit& expected) const;
  absl::Status Same(absl::string_view what, Outcome outcome,
                    Outcome::Code expected);
  absl::Status SameCopies(const std::vector<BlockCopy>& copies,
                          const KvCacheModel::Copies& expected) const;
  absl::Status Compare() const;

  const KvCacheOptions options_;
  std::unique_ptr<KvCacheManager> cache_;
  KvCacheModel model_;
  std::map<int32_t, User> users_;
  std::vector<OldHit> old_hits_;
  int64_t num_performed_ = 0;
  int64_t counts_[3] = {};
  int64_t hits_ = 0;
};

}  // namespace interleave::cache

#endif  // CACHE_KV_CACHE_OPS_H_
