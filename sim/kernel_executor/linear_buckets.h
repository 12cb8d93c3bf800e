// LinearBuckets: which numbers of tokens share an algorithm of a linear layer.

#ifndef SIM_KERNEL_EXECUTOR_LINEAR_BUCKETS_H_
#define SIM_KERNEL_EXECUTOR_LINEAR_BUCKETS_H_

#include <cstdint>
#include <vector>

namespace interleave::sim {

// The most tokens of each bucket, ascending, up to the first that reaches
// max_tokens, which is its own end.
std::vector<int64_t> LinearBuckets(int64_t max_tokens);

}  // namespace interleave::sim

#endif  // SIM_KERNEL_EXECUTOR_LINEAR_BUCKETS_H_
