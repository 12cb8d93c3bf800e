#include "sim/simulation.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/sim_time.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/registry.h"
#include "sim/cost_model_executor.h"
#include "sim/metrics/metrics.h"
#include "sim/replica.h"
#include "sim/testing/linear_cost_model.h"
#include "sim/testing/list_workload.h"
#include "sim/testing/run_replica.h"

namespace interleave::sim {
namespace {

using ::testing::ElementsAre;

SimTime At(int64_t ns) { return SimTime::FromNanos(ns); }

// Replicas whose iterations take 100 ns, each recording on its own.
class SimulationTest : public testing::Test {
 protected:
  void MakeReplicas(int count) {
    recorders_ = std::vector<Recorder>(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      ASSERT_OK_AND_ASSIGN(auto policy,
                           scheduler::CreatePolicy("stall_free", ""));
      Replica::Options options;
      options.index = i;
      options.engine.cache.num_blocks = 100;
      ASSERT_OK_AND_ASSIGN(
          auto replica,
          Replica::Create(
              options, std::move(policy),
              std::make_unique<CostModelExecutor>(
                  std::make_unique<LinearCostModel>(
                      LinearCostModel::Coefficients{.iteration = 100}),
                  HostOverhead{}),
              &metrics_, &workload_, &recorders_[static_cast<size_t>(i)]));
      replicas_.push_back(std::move(replica));
    }
  }

  Metrics metrics_;
  ListWorkload workload_;
  RoundRobinRouter router_;
  std::vector<Recorder> recorders_;
  std::vector<std::unique_ptr<Replica>> replicas_;
};

TEST_F(SimulationTest, NothingToDoEndsAtOnce) {
  MakeReplicas(1);
  Simulation simulation(&workload_, &router_, std::move(replicas_));
  EXPECT_OK(simulation.Run());
  EXPECT_EQ(simulation.now(), SimTime::Zero());
}

TEST_F(SimulationTest, ReplicasRunSideBySide) {
  // Two tokens each: 200 ns, from arrival if its replica is idle.
  for (int i = 0; i < 4; ++i) workload_.Add(At(10 * i), 16, 2);
  MakeReplicas(2);
  Simulation simulation(&workload_, &router_, std::move(replicas_));
  ASSERT_OK(simulation.Run());
  EXPECT_EQ(simulation.arrived(), 4);
  EXPECT_EQ(metrics_.completed(), 4);
  EXPECT_EQ(recorders_[0].ById(0).last_token, At(200));
  EXPECT_EQ(recorders_[1].ById(1).last_token, At(210));
  // Arrived while an iteration ran: joined the next.
  EXPECT_EQ(recorders_[0].ById(2).first_token, At(200));
  EXPECT_EQ(recorders_[1].ById(3).first_token, At(210));
  // Events of both replicas, in order of time.
  std::vector<int64_t> order;
  for (const auto& [id, time] : workload_.done()) order.push_back(id);
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(simulation.now(), At(310));
}

TEST_F(SimulationTest, ProgressMayStopTheRun) {
  workload_.Add(At(0), 16, 2);
  MakeReplicas(1);
  Simulation simulation(&workload_, &router_, std::move(replicas_));
  simulation.set_progress([](SimTime, int64_t) { return false; });
  EXPECT_THAT(simulation.Run(), StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace interleave::sim
