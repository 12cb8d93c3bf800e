#include "sim/workload/closed_loop_workload.h"

#include <cstdint>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/sim_time.h"
#include "gtest/gtest.h"
#include "scheduler/request_spec.h"
#include "sim/workload/length_law.h"
#include "sim/workload/request_source.h"
#include "sim/workload/workload.h"

namespace interleave::sim {
namespace {

using ::interleave::scheduler::RequestSpec;

std::unique_ptr<Workload> Make(const ClosedLoopOptions& options,
                               int64_t num_requests) {
  return MakeClosedLoopWorkload(
      options,
      MakeLengthSource(MakeFixedLength(10), MakeFixedLength(10), Rng(1)),
      num_requests, Rng(1));
}

TEST(ClosedLoopWorkloadTest, AUserAsksAgainAfterTheAnswer) {
  ClosedLoopOptions options;
  options.users = 2;
  options.think_time_s = 1;
  const auto workload = Make(options, 4);
  EXPECT_EQ(workload->TotalRequests(), 4);
  EXPECT_EQ(workload->Next().arrival, SimTime::Zero());
  EXPECT_EQ(workload->Next().arrival, SimTime::Zero());
  EXPECT_EQ(workload->NextArrival(), SimTime::Infinity());
  workload->OnRequestDone(1, SimTime::FromSeconds(3));
  EXPECT_EQ(workload->NextArrival(), SimTime::FromSeconds(4));
  workload->OnRequestDone(0, SimTime::FromSeconds(3.5));
  const RequestSpec third = workload->Next();
  EXPECT_EQ(third.id, 2);
  EXPECT_EQ(third.arrival, SimTime::FromSeconds(4));
  EXPECT_EQ(workload->Next().arrival, SimTime::FromSeconds(4.5));
  workload->OnRequestDone(2, SimTime::FromSeconds(9));
  EXPECT_EQ(workload->NextArrival(), SimTime::Infinity());
}

TEST(ClosedLoopWorkloadTest, UsersMayStartOneAfterTheOther) {
  ClosedLoopOptions options;
  options.users = 3;
  options.start_gap_s = 0.5;
  const auto workload = Make(options, 4);
  EXPECT_EQ(workload->Next().arrival, SimTime::Zero());
  EXPECT_EQ(workload->Next().arrival, SimTime::FromSeconds(0.5));
  // An answer before the third user has started.
  workload->OnRequestDone(0, SimTime::FromSeconds(0.75));
  EXPECT_EQ(workload->Next().arrival, SimTime::FromSeconds(0.75));
  EXPECT_EQ(workload->Next().arrival, SimTime::FromSeconds(1));
}

TEST(ClosedLoopWorkloadTest, MoreUsersThanRequests) {
  ClosedLoopOptions options;
  options.users = 5;
  const auto workload = Make(options, 2);
  workload->Next();
  workload->Next();
  EXPECT_EQ(workload->NextArrival(), SimTime::Infinity());
}

TEST(ClosedLoopWorkloadTest, NeverMoreInFlightThanUsers) {
  constexpr int kUsers = 8;
  constexpr int64_t kTotal = 5000;
  ClosedLoopOptions options;
  options.users = kUsers;
  options.think_time_s = 0.5;
  options.exponential_think_time = true;
  const auto workload = Make(options, kTotal);
  Rng rng(2);
  using Ending = std::pair<SimTime, int64_t>;
  std::priority_queue<Ending, std::vector<Ending>, std::greater<Ending>>
      in_flight;
  SimTime last;
  int64_t taken = 0;
  while (taken < kTotal) {
    if (workload->NextArrival() == SimTime::Infinity() ||
        (!in_flight.empty() &&
         in_flight.top().first < workload->NextArrival())) {
      ASSERT_FALSE(in_flight.empty());
      const auto [now, id] = in_flight.top();
      in_flight.pop();
      workload->OnRequestDone(id, now);
      continue;
    }
    const RequestSpec spec = workload->Next();
    ASSERT_EQ(spec.id, taken++);
    ASSERT_GE(spec.arrival, last);
    last = spec.arrival;
    in_flight.emplace(spec.arrival + SimDuration::Seconds(rng.Exponential(1.0)),
                      spec.id);
    ASSERT_LE(in_flight.size(), kUsers);
  }
  // Each user's turn takes 1.5 s in the mean.
  EXPECT_NEAR(kTotal / last.seconds(), kUsers / 1.5, 0.3);
}

TEST(ClosedLoopWorkloadTest, NoThinkTime) {
  const auto workload = Make(ClosedLoopOptions(), 2);
  workload->Next();
  workload->OnRequestDone(0, SimTime::FromSeconds(2));
  EXPECT_EQ(workload->NextArrival(), SimTime::FromSeconds(2));
}

}  // namespace
}  // namespace interleave::sim
