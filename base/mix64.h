// Mix64: 64 bits, well mixed, of 64 bits.

#ifndef BASE_MIX64_H_
#define BASE_MIX64_H_

#include <cstdint>

#ifdef __CUDACC__
#define INTERLEAVE_MIX64_ATTRIBUTES __host__ __device__
#else
#define INTERLEAVE_MIX64_ATTRIBUTES
#endif

namespace interleave {

// 2^64 divided by the golden ratio: what SplitMix64 adds before each Mix64, so
// that small numbers, and 0 among them, are mixed as well as others.
inline constexpr uint64_t kMix64Step = 0x9e3779b97f4a7c15;

// The finalizer of SplitMix64 (Steele, Lea and Flood, 2014): a bijection, with
// Mix64(0) == 0.
INTERLEAVE_MIX64_ATTRIBUTES constexpr uint64_t Mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace interleave

#endif  // BASE_MIX64_H_
