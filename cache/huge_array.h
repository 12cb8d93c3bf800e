// HugeArray: an array of fixed length, zeroed, that asks for huge pages where
// it is large.  What is read in random order then costs a cache miss, not one
// for its page's address as well.

#ifndef CACHE_HUGE_ARRAY_H_
#define CACHE_HUGE_ARRAY_H_

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>

#include "base/check.h"

namespace interleave::cache {

// The array starts at a cache line, and at a huge page where it is larger.
template <typename T>
class HugeArray {
  static_assert(std::is_trivially_copyable_v<T> &&
                std::is_trivially_destructible_v<T>);

 public:
  explicit HugeArray(size_t size) : size_(size) {
    const size_t bytes = size * sizeof(T);
    const size_t alignment = bytes >= kHugePage ? kHugePage : kCacheLine;
    const size_t rounded =
        (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
    void* const memory = std::aligned_alloc(alignment, rounded);
    CHECK(memory != nullptr);
#ifdef MADV_HUGEPAGE
    // Advice: without huge pages it works as well.
    if (alignment == kHugePage) madvise(memory, rounded, MADV_HUGEPAGE);
#endif
    std::memset(memory, 0, bytes);
    data_.reset(static_cast<T*>(memory));
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data_.get()[i]; }
  const T& operator[](size_t i) const { return data_.get()[i]; }
  T* begin() { return data_.get(); }
  T* end() { return data_.get() + size_; }
  const T* begin() const { return data_.get(); }
  const T* end() const { return data_.get() + size_; }

 private:
  static constexpr size_t kCacheLine = 64;
  static constexpr size_t kHugePage = size_t{1} << 21;

  struct Free {
    void operator()(T* memory) const { std::free(memory); }
  };

  size_t size_;
  std::unique_ptr<T, Free> data_;
};

}  // namespace interleave::cache

#endif  // CACHE_HUGE_ARRAY_H_
