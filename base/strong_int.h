// StrongInt: an integer that is a name (of a block, a sequence, ...) or a
// count of one unit, and that no other integer is mistaken for.
//
//   using BlockId = StrongInt<struct BlockIdTag, int32_t>;
//   BlockId id(7);
//   table[id.value()];

#ifndef BASE_STRONG_INT_H_
#define BASE_STRONG_INT_H_

#include <compare>
#include <ostream>
#include <utility>

namespace interleave {

template <typename Tag, typename Rep>
class StrongInt {
 public:
  using ValueType = Rep;

  constexpr StrongInt() = default;
  constexpr explicit StrongInt(Rep value) : value_(value) {}

  constexpr Rep value() const { return value_; }

  friend constexpr auto operator<=>(StrongInt, StrongInt) = default;

  template <typename H>
  friend H AbslHashValue(H h, StrongInt id) {
    return H::combine(std::move(h), id.value_);
  }

  friend std::ostream& operator<<(std::ostream& out, StrongInt id) {
    return out << +id.value_;
  }

 private:
  Rep value_ = 0;
};

}  // namespace interleave

#endif  // BASE_STRONG_INT_H_
