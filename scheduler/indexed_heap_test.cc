#include "scheduler/indexed_heap.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace interleave::scheduler {
namespace {

struct Item {
  int64_t key = 0;
  int32_t index = kNotInHeap;
};
struct Traits {
  static bool Before(const Item& a, const Item& b) { return a.key < b.key; }
  static int32_t& Index(Item& item) { return item.index; }
};

TEST(IndexedHeapTest, PopsInOrder) {
  std::vector<Item> items = {{5}, {1}, {4}, {2}, {3}};
  IndexedHeap<Item, Traits> heap;
  for (Item& item : items) heap.Push(item);
  for (int64_t expected = 1; expected <= 5; ++expected) {
    Item& top = heap.top();
    EXPECT_EQ(top.key, expected);
    heap.Remove(top);
    EXPECT_EQ(top.index, kNotInHeap);
  }
  EXPECT_TRUE(heap.empty());
}

TEST(IndexedHeapTest, RandomPushesAndRemovalsAgreeWithASortedVector) {
  std::mt19937_64 random(7);
  std::vector<Item> items(200);
  std::vector<int64_t> keys(items.size());
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<int64_t>(i);
  std::shuffle(keys.begin(), keys.end(), random);
  for (size_t i = 0; i < items.size(); ++i) items[i].key = keys[i];

  IndexedHeap<Item, Traits> heap;
  std::vector<Item*> model;
  for (int step = 0; step < 20000; ++step) {
    Item& item = items[random() % items.size()];
    if (item.index == kNotInHeap) {
      heap.Push(item);
      model.push_back(&item);
    } else {
      heap.Remove(item);
      model.erase(std::find(model.begin(), model.end(), &item));
    }
    ASSERT_EQ(heap.size(), static_cast<int64_t>(model.size()));
    if (model.empty()) continue;
    const Item* least = *std::min_element(
        model.begin(), model.end(),
        [](const Item* a, const Item* b) { return a->key < b->key; });
    ASSERT_EQ(&heap.top(), least);
  }
}

}  // namespace
}  // namespace interleave::scheduler
