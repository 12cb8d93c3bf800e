#include "sim/event_queue.h"

#include <cstdint>
#include <vector>

#include "base/sim_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

using ::testing::ElementsAre;

std::vector<int32_t> Drain(EventQueue& queue) {
  std::vector<int32_t> order;
  while (!queue.empty()) order.push_back(queue.Pop().replica);
  return order;
}

TEST(EventQueueTest, TimeThenPriorityThenInsertion) {
  EventQueue queue;
  const SimTime t1 = SimTime::FromNanos(1);
  const SimTime t2 = SimTime::FromNanos(2);
  queue.Push({t2, EventPriority::kIterationDone, 0});
  queue.Push({t1, EventPriority::kPlan, 1});
  queue.Push({t1, EventPriority::kIterationDone, 2});
  queue.Push({t1, EventPriority::kArrival, 3});
  queue.Push({t1, EventPriority::kPlan, 4});
  queue.Push({t1, EventPriority::kIterationDone, 5});
  EXPECT_EQ(queue.size(), 6);
  EXPECT_THAT(Drain(queue), ElementsAre(2, 5, 3, 1, 4, 0));
}

TEST(EventQueueTest, EqualEventsStayInOrder) {
  EventQueue queue;
  std::vector<int32_t> expected;
  for (int32_t i = 0; i < 1000; ++i) {
    queue.Push({SimTime::Zero(), EventPriority::kPlan, i});
    expected.push_back(i);
  }
  EXPECT_EQ(Drain(queue), expected);
}

}  // namespace
}  // namespace interleave::sim
