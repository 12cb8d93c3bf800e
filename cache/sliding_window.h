// Arithmetic of sliding-window attention over blocks.
//
// With a window of W the query at position p reads the keys at positions
// (p - W, p].  So once `computed` tokens are in the cache the next query reads
// from position computed - W + 1 on.

#ifndef CACHE_SLIDING_WINDOW_H_
#define CACHE_SLIDING_WINDOW_H_

#include <algorithm>
#include <cstdint>

#include "base/ceil_div.h"

namespace interleave::cache {

// Leading blocks that no later query reads.  REQUIRES: window >= 1.
inline int64_t BlocksOutsideWindow(int64_t computed, int64_t window,
                                   int64_t block_size) {
  return std::max<int64_t>(0, computed - window + 1) / block_size;
}

// Blocks right before a block boundary that the query after it may read.
// REQUIRES: window >= 1.
inline int64_t BlocksInsideWindow(int64_t window, int64_t block_size) {
  return CeilDiv(window - 1, block_size);
}

// The longest prefix, in blocks and at most `limit`, whose last `inside` blocks
// (all, if it has no more) are cached; cached(i) answers for block i and is
// asked at most once for each.
template <typename Cached>
int64_t LongestWindowHit(int64_t limit, int64_t inside, Cached&& cached) {
  int64_t end = limit;
  int64_t run = 0;
  for (int64_t i = limit - 1; i >= 0 && run < inside; --i) {
    if (cached(i)) {
      ++run;
    } else {
      end = i;
      run = 0;
    }
  }
  return end;
}

}  // namespace interleave::cache

#endif  // CACHE_SLIDING_WINDOW_H_
