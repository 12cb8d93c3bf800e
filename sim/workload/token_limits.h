// Bounds on what a trace may say, chosen so that sums stay in their types.

#ifndef SIM_WORKLOAD_TOKEN_LIMITS_H_
#define SIM_WORKLOAD_TOKEN_LIMITS_H_

#include <cstdint>

namespace interleave::sim {

// The longest prompt and the longest output: their sum is an int32_t.
inline constexpr int32_t kMaxTokens = 1'000'000'000;

// The latest arrival, about 31 years: far inside SimTime.
inline constexpr int64_t kMaxArrivalSeconds = 1'000'000'000;

// Tenants are numbered from 0, and something may keep an array of them.
inline constexpr int32_t kMaxTenant = 1'000'000;

// Content ids leave room for a bit that marks generated content.
inline constexpr int64_t kMaxContentId = int64_t{1} << 61;

}  // namespace interleave::sim

#endif  // SIM_WORKLOAD_TOKEN_LIMITS_H_
