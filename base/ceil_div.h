// CeilDiv: how many pieces of a size something takes.

#ifndef BASE_CEIL_DIV_H_
#define BASE_CEIL_DIV_H_

#include <cstdint>

namespace interleave {

// a / b, rounded up.
// REQUIRES: a >= 0, b > 0, a + b - 1 fits.
constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace interleave

#endif  // BASE_CEIL_DIV_H_
