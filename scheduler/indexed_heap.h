// IndexedHeap: a binary min-heap of elements that know their place in it, so
// that any of them can be removed in O(log n).
//
//   struct Item { int64_t due; int32_t heap_index = kNotInHeap; };
//   struct Traits {
//     static bool Before(const Item& a, const Item& b) { return a.due < b.due;
//     } static int32_t& Index(Item& item) { return item.heap_index; }
//   };
//   IndexedHeap<Item, Traits> heap;
//
// Keys must not change while an element is in the heap, and Before must be a
// total order, or runs would not repeat.  The heap owns nothing.

#ifndef SCHEDULER_INDEXED_HEAP_H_
#define SCHEDULER_INDEXED_HEAP_H_

#include <cstdint>
#include <vector>

#include "base/check.h"

namespace interleave::scheduler {

inline constexpr int32_t kNotInHeap = -1;

template <typename T, typename Traits>
class IndexedHeap {
 public:
  bool empty() const { return heap_.empty(); }
  int64_t size() const { return static_cast<int64_t>(heap_.size()); }
  // REQUIRES: not empty.
  T& top() const { return *heap_.front(); }

  void Push(T& element) {
    DCHECK_EQ(Traits::Index(element), kNotInHeap);
    heap_.push_back(&element);
    SiftUp(heap_.size() - 1);
  }

  // REQUIRES: the element is in this heap.
  void Remove(T& element) {
    const size_t hole = static_cast<size_t>(Traits::Index(element));
    DCHECK_LT(hole, heap_.size());
    DCHECK_EQ(heap_[hole], &element);
    T* last = heap_.back();
    heap_.pop_back();
    Traits::Index(element) = kNotInHeap;
    if (last == &element) return;
    Place(last, hole);
    SiftUp(hole);
    SiftDown(static_cast<size_t>(Traits::Index(*last)));
  }

 private:
  void Place(T* element, size_t index) {
    heap_[index] = element;
    Traits::Index(*element) = static_cast<int32_t>(index);
  }

  void SiftUp(size_t index) {
    T* element = heap_[index];
    while (index > 0) {
      const size_t parent = (index - 1) / 2;
      if (!Traits::Before(*element, *heap_[parent])) break;
      Place(heap_[parent], index);
      index = parent;
    }
    Place(element, index);
  }

  void SiftDown(size_t index) {
    T* element = heap_[index];
    for (;;) {
      size_t child = 2 * index + 1;
      if (child >= heap_.size()) break;
      if (child + 1 < heap_.size() &&
          Traits::Before(*heap_[child + 1], *heap_[child])) {
        ++child;
      }
      if (!Traits::Before(*heap_[child], *element)) break;
      Place(heap_[child], index);
      index = child;
    }
    Place(element, index);
  }

  std::vector<T*> heap_;
};

}  // namespace interleave::scheduler

#endif  // SCHEDULER_INDEXED_HEAP_H_
