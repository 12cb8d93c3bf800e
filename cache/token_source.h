// TokenSource: where the token ids of one sequence come from, on demand, so
// that nothing needs to hold them all (a simulator makes them up).

#ifndef CACHE_TOKEN_SOURCE_H_
#define CACHE_TOKEN_SOURCE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace interleave::cache {

class TokenSource {
 public:
  virtual ~TokenSource() = default;

  // Writes the ids of tokens [begin, begin + out.size()).  The same position
  // always gives the same id.  Called only for positions below the token count
  // that went along with the source.
  virtual void Read(int64_t begin, absl::Span<int32_t> out) const = 0;
};

// Tokens that lie in memory, which must outlive the source.
class SpanTokenSource final : public TokenSource {
 public:
  explicit SpanTokenSource(absl::Span<const int32_t> tokens)
      : tokens_(tokens) {}

  void Read(int64_t begin, absl::Span<int32_t> out) const override {
    const absl::Span<const int32_t> from =
        tokens_.subspan(static_cast<size_t>(begin), out.size());
    std::copy(from.begin(), from.end(), out.begin());
  }

 private:
  absl::Span<const int32_t> tokens_;
};

}  // namespace interleave::cache

#endif  // CACHE_TOKEN_SOURCE_H_
