#include "scheduler/intrusive_list.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Item {
  explicit Item(int v) : value(v) {}
  int value;
  ListLink<Item> link;
};
using List = IntrusiveList<Item, &Item::link>;

std::vector<int> Values(const List& list) {
  std::vector<int> values;
  for (const Item& item : list) values.push_back(item.value);
  return values;
}

TEST(IntrusiveListTest, KeepsOrder) {
  Item items[4] = {Item(0), Item(1), Item(2), Item(3)};
  List list;
  EXPECT_TRUE(list.empty());
  list.PushBack(items[1]);
  list.PushBack(items[2]);
  list.PushFront(items[0]);
  list.InsertAfter(&items[1], items[3]);
  EXPECT_THAT(Values(list), ElementsAre(0, 1, 3, 2));
  EXPECT_EQ(list.size(), 4);
  EXPECT_EQ(list.front(), &items[0]);
  EXPECT_EQ(list.back(), &items[2]);
  EXPECT_EQ(List::Previous(items[2]), &items[3]);
  EXPECT_EQ(List::Next(items[2]), nullptr);
}

TEST(IntrusiveListTest, RemovesAnywhere) {
  Item items[3] = {Item(0), Item(1), Item(2)};
  List list;
  for (Item& item : items) list.PushBack(item);
  list.Remove(items[1]);
  EXPECT_THAT(Values(list), ElementsAre(0, 2));
  list.Remove(items[0]);
  list.Remove(items[2]);
  EXPECT_THAT(Values(list), IsEmpty());
  EXPECT_EQ(list.back(), nullptr);
  list.PushBack(items[1]);
  EXPECT_THAT(Values(list), ElementsAre(1));
}

}  // namespace
}  // namespace interleave::scheduler
