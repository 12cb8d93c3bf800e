// The hash of a block's content, chained: of its tokens and of all before it.
//
// A hash only says where to look; whether the content is the same is told by
// the tokens themselves (see PrefixIndex).  It is the same in every run and on
// every machine unless a seed is given.

#ifndef CACHE_BLOCK_HASH_H_
#define CACHE_BLOCK_HASH_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/numeric/bits.h"
#include "absl/numeric/int128.h"
#include "absl/types/span.h"
#include "base/mix64.h"

namespace interleave::cache {

class BlockHasher {
 public:
  static constexpr uint64_t kDefaultSeed = 0x2545f4914f6cdd1d;

  explicit BlockHasher(uint64_t seed = kDefaultSeed)
      : key_{Mix64(seed + kMix64Step), Mix64(seed + 2 * kMix64Step),
             Mix64(seed + 3 * kMix64Step), Mix64(seed + 4 * kMix64Step)} {}

  // Of what stands before the first block: a sequence's extra keys (adapter,
  // image, salt).
  uint64_t Root(absl::Span<const int64_t> extra_keys) const {
    uint64_t hash = key_[2] + extra_keys.size();
    for (const int64_t key : extra_keys) {
      hash = Chain(hash, Mix64(static_cast<uint64_t>(key) + kMix64Step));
    }
    return hash;
  }

  // Of a block with these tokens, after the content with hash `parent`.
  uint64_t Next(uint64_t parent, absl::Span<const int32_t> tokens) const {
    return Chain(parent, Digest(tokens));
  }

  // Of content `identity` in the blocks of group `group` (see PrefixIndex).
  uint64_t InGroup(uint64_t identity, int32_t group) const {
    return Chain(key_[0] + static_cast<uint64_t>(group), Mix64(identity));
  }

 private:
  // Both halves of the 128-bit product, so that each bit of one factor reaches
  // most bits of the result.
  static uint64_t Fold(uint64_t a, uint64_t b) {
    const absl::uint128 product = absl::uint128(a) * b;
    return absl::Uint128High64(product) ^ absl::Uint128Low64(product);
  }
  uint64_t Chain(uint64_t parent, uint64_t digest) const {
    return Fold(parent ^ key_[2], digest ^ key_[3]) + digest;
  }
  static uint64_t Load(const int32_t* tokens) {
    uint64_t word;
    std::memcpy(&word, tokens, sizeof(word));
    return word;
  }

  // Four tokens a step.  The steps' products do not wait for each other, only
  // the cheap sum does; its rotation tells the steps apart.
  uint64_t Digest(absl::Span<const int32_t> tokens) const {
    const int32_t* next = tokens.data();
    size_t left = tokens.size();
    uint64_t sum = key_[0] + left;
    for (; left >= 4; left -= 4, next += 4) {
      sum = absl::rotl(sum, 23) +
            Fold(Load(next) ^ key_[0], Load(next + 2) ^ key_[1]);
    }
    for (; left > 0; --left, ++next) {
      sum = absl::rotl(sum, 23) + Mix64(static_cast<uint32_t>(*next) + key_[1]);
    }
    return Mix64(sum);
  }

  uint64_t key_[4];
};

}  // namespace interleave::cache

#endif  // CACHE_BLOCK_HASH_H_
