// Arena: hands out aligned pieces of one allocation.
//
//   Arena counts(nullptr);
//   Carve(counts);                       // takes the pieces it needs
//   void* base = Allocate(counts.size());
//   Arena arena(base);
//   Carve(arena);                        // the same pieces, with addresses

#ifndef BASE_ARENA_H_
#define BASE_ARENA_H_

#include <cstdint>

#include "base/ceil_div.h"

namespace interleave {

// Never touches the memory, which may be a device's.
class Arena {
 public:
  static constexpr int64_t kAlignment = 256;

  // Over null it only counts, and its pieces are null.  `base`, which is
  // aligned to kAlignment, must outlive the pieces.
  explicit Arena(void* base) : base_(static_cast<char*>(base)) {}

  void* TakeBytes(int64_t bytes) {
    char* const piece = base_ == nullptr ? nullptr : base_ + size_;
    size_ += CeilDiv(bytes, kAlignment) * kAlignment;
    return piece;
  }

  template <typename T>
  T* Take(int64_t count) {
    return static_cast<T*>(TakeBytes(count * static_cast<int64_t>(sizeof(T))));
  }

  // Bytes of all pieces so far.
  int64_t size() const { return size_; }

 private:
  char* base_;
  int64_t size_ = 0;
};

}  // namespace interleave

#endif  // BASE_ARENA_H_
