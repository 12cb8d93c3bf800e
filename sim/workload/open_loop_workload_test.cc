#include "sim/workload/open_loop_workload.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/sim_time.h"
#include "gtest/gtest.h"
#include "scheduler/request_spec.h"
#include "sim/workload/arrival_law.h"
#include "sim/workload/length_law.h"
#include "sim/workload/request_source.h"
#include "sim/workload/workload.h"

namespace interleave::sim {
namespace {

using ::interleave::scheduler::RequestSpec;

std::unique_ptr<RequestSource> Uniform(uint64_t seed) {
  return MakeLengthSource(MakeUniformLength(1, 100), MakeUniformLength(1, 100),
                          Rng(seed));
}

TEST(OpenLoopWorkloadTest, GivesEveryRequestOnce) {
  const auto workload =
      MakeOpenLoopWorkload(MakeConstantArrivals(2), Uniform(1), 3, Rng(1));
  EXPECT_EQ(workload->TotalRequests(), 3);
  for (int64_t i = 0; i < 3; ++i) {
    const SimTime arrival = SimTime::FromNanos(i * 500'000'000);
    EXPECT_EQ(workload->NextArrival(), arrival);
    const RequestSpec spec = workload->Next();
    EXPECT_EQ(spec.id, i);
    EXPECT_EQ(spec.arrival, arrival);
    workload->OnRequestDone(spec.id, arrival);
  }
  EXPECT_EQ(workload->NextArrival(), SimTime::Infinity());
}

TEST(OpenLoopWorkloadTest, ArrivalsAndLengthsAreIndependent) {
  // Another arrival law leaves the lengths where they were, and the reverse.
  const auto a =
      MakeOpenLoopWorkload(MakePoissonArrivals(1), Uniform(7), 1000, Rng(7));
  const auto b =
      MakeOpenLoopWorkload(MakeGammaArrivals(9, 3), Uniform(7), 1000, Rng(7));
  const auto c =
      MakeOpenLoopWorkload(MakePoissonArrivals(1), Uniform(8), 1000, Rng(7));
  for (int i = 0; i < 1000; ++i) {
    const RequestSpec from_a = a->Next();
    const RequestSpec from_b = b->Next();
    ASSERT_EQ(from_a.prompt_tokens, from_b.prompt_tokens);
    ASSERT_EQ(from_a.output_tokens, from_b.output_tokens);
    ASSERT_EQ(from_a.arrival, c->Next().arrival);
  }
}

TEST(TimedWorkloadTest, UsesTheGivenTimes) {
  std::vector<SimTime> times = {SimTime::FromNanos(5), SimTime::FromNanos(5),
                                SimTime::FromNanos(9)};
  const auto workload = MakeTimedWorkload(times, Uniform(1));
  EXPECT_EQ(workload->TotalRequests(), 3);
  for (const SimTime time : times) EXPECT_EQ(workload->Next().arrival, time);
  EXPECT_EQ(workload->NextArrival(), SimTime::Infinity());
}

}  // namespace
}  // namespace interleave::sim
