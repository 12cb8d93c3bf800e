// IntrusiveList: a doubly linked list through a member of its elements, so that
// moving a request between queues is O(1) and allocates nothing.
//
//   struct Item { ListLink<Item> link; };
//   IntrusiveList<Item, &Item::link> list;
//   list.PushBack(item);
//   for (Item& item : list) ...
//
// An element is in at most one list per link.  The list owns nothing.

#ifndef SCHEDULER_INTRUSIVE_LIST_H_
#define SCHEDULER_INTRUSIVE_LIST_H_

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "base/check.h"

namespace interleave::scheduler {

template <typename T>
struct ListLink {
  T* previous = nullptr;
  T* next = nullptr;
  bool linked = false;
};

template <typename T, auto kLink>
class IntrusiveList {
 public:
  // U: T or const T.
  template <typename U>
  class BasicIterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = U*;
    using reference = U&;

    BasicIterator() = default;
    explicit BasicIterator(U* element) : element_(element) {}
    U& operator*() const { return *element_; }
    U* operator->() const { return element_; }
    BasicIterator& operator++() {
      element_ = (element_->*kLink).next;
      return *this;
    }
    BasicIterator operator++(int) {
      BasicIterator before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(BasicIterator a, BasicIterator b) {
      return a.element_ == b.element_;
    }

   private:
    U* element_ = nullptr;
  };
  using Iterator = BasicIterator<T>;
  using ConstIterator = BasicIterator<const T>;

  IntrusiveList() = default;
  IntrusiveList(const IntrusiveList&) = delete;
  IntrusiveList& operator=(const IntrusiveList&) = delete;

  bool empty() const { return front_ == nullptr; }
  int64_t size() const { return size_; }
  // nullptr when empty.
  T* front() { return front_; }
  T* back() { return back_; }
  const T* front() const { return front_; }
  const T* back() const { return back_; }
  // The neighbours of an element of this list; nullptr at the ends.
  static T* Previous(T& element) { return (element.*kLink).previous; }
  static T* Next(T& element) { return (element.*kLink).next; }
  static const T* Previous(const T& element) {
    return (element.*kLink).previous;
  }
  static const T* Next(const T& element) { return (element.*kLink).next; }

  Iterator begin() { return Iterator(front_); }
  Iterator end() { return Iterator(nullptr); }
  ConstIterator begin() const { return ConstIterator(front_); }
  ConstIterator end() const { return ConstIterator(nullptr); }

  void PushBack(T& element) { InsertAfter(back_, element); }
  void PushFront(T& element) { InsertAfter(nullptr, element); }

  // Inserts behind `position`, or in front when that is nullptr.
  void InsertAfter(T* position, T& element) {
    ListLink<T>& link = element.*kLink;
    DCHECK(!link.linked);
    link.linked = true;
    link.previous = position;
    link.next = position == nullptr ? front_ : (position->*kLink).next;
    (link.previous == nullptr ? front_ : (link.previous->*kLink).next) =
        &element;
    (link.next == nullptr ? back_ : (link.next->*kLink).previous) = &element;
    ++size_;
  }

  void Remove(T& element) {
    ListLink<T>& link = element.*kLink;
    DCHECK(link.linked);
    (link.previous == nullptr ? front_ : (link.previous->*kLink).next) =
        link.next;
    (link.next == nullptr ? back_ : (link.next->*kLink).previous) =
        link.previous;
    link = ListLink<T>();
    --size_;
  }

 private:
  T* front_ = nullptr;
  T* back_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace interleave::scheduler

#endif  // SCHEDULER_INTRUSIVE_LIST_H_
