#include "sim/kernel_executor/linear_buckets.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace interleave::sim {

std::vector<int64_t> LinearBuckets(int64_t max_tokens) {
  std::vector<int64_t> buckets = {1};
  if (max_tokens > 1) buckets.push_back(8);
  // Steps of 16, doubled as the numbers double.
  int64_t step = 16;
  while (buckets.back() < max_tokens) {
    const int64_t next = buckets.back() / step * step + step;
    buckets.push_back(next);
    if (next >= 8 * step) step *= 2;
  }
  buckets.back() = std::max<int64_t>(max_tokens, 1);
  return buckets;
}

}  // namespace interleave::sim
