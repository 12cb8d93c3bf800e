#include "sim/replica.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/sim_time.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/engine_view.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/policy.h"
#include "scheduler/request.h"
#include "sim/cost_model_executor.h"
#include "sim/metrics/metrics.h"
#include "sim/testing/linear_cost_model.h"
#include "sim/testing/list_workload.h"
#include "sim/testing/run_replica.h"

namespace interleave::sim {
namespace {

using scheduler::EngineView;
using scheduler::IterationPlan;
using scheduler::Policy;
using scheduler::Repeat;
using scheduler::Request;
using scheduler::Reservation;
using ::testing::HasSubstr;

// All decodes, then chunks of at most `chunk` tokens in all, oldest first; the
// last admitted is preempted when blocks run short.
class ChunkPolicy final : public Policy {
 public:
  explicit ChunkPolicy(int32_t chunk) : chunk_(chunk) {}

  void Plan(const EngineView& view, IterationPlan& plan) override {
    int64_t free = view.free_blocks();
    int64_t need = view.DecodeAllNeed();
    const Request* victim = view.running().back();
    int64_t preempted = 0;
    while (need > free) {
      free += view.BlocksFreedBy(*victim);
      if (view.DecodeNeedsBlock(*victim)) --need;
      plan.Preempt(*victim);
      ++preempted;
      victim = scheduler::RequestQueue::Previous(*victim);
    }
    plan.DecodeAll();
    free -= need;
    if (preempted > 0) return;
    int32_t budget = chunk_;
    for (const Request& request : view.prefilling()) {
      const int32_t tokens = std::min(budget, request.remaining());
      const int64_t blocks = view.GrowthNeed(request, tokens);
      if (tokens == 0 || blocks > free) return;
      plan.Run(request, tokens);
      budget -= tokens;
      free -= blocks;
    }
    int64_t seqs = view.limits().max_num_seqs - view.num_running();
    for (const Request& request : view.waiting()) {
      const int32_t tokens = std::min<int32_t>(
          budget, static_cast<int32_t>(view.TokensToCompute(request)));
      if (tokens == 0 || seqs == 0) return;
      const int64_t blocks =
          view.AdmissionNeed(request, tokens, Reservation::kPrompt);
      if (blocks > free) return;
      plan.Run(request, tokens, Reservation::kPrompt);
      budget -= tokens;
      free -= blocks;
      --seqs;
    }
    if (plan.pieces().empty() && view.num_waiting() == 0) {
      plan.set_repeat(Repeat::kUntilArrival);
    }
  }

 private:
  const int32_t chunk_;
};

std::unique_ptr<ReplicaRun> Simulate(const ReplicaSetup& setup,
                                     std::unique_ptr<Policy> policy,
                                     const ListWorkload& workload) {
  return RunReplica(setup, std::move(policy), workload);
}

SimTime At(int64_t ns) { return SimTime::FromNanos(ns); }

TEST(ReplicaTest, OneRequestByHand) {
  ListWorkload workload;
  workload.Add(At(1000), /*prompt_tokens=*/40, /*output_tokens=*/3);
  ReplicaSetup setup;
  setup.ns = {.iteration = 100, .prefill_token = 1, .decode = 5, .kv_token = 1};
  setup.host.constant = SimDuration::Nanos(7);
  const auto run = Simulate(setup, std::make_unique<ChunkPolicy>(32), workload);
  ASSERT_OK(run->status);
  // 32 tokens: 100 + 32 + 7; 8 tokens: 100 + 8 + 7, first token; decodes over
  // 40 and 41 cached tokens: 100 + 5 + 40 + 7, 100 + 5 + 41 + 7.
  ASSERT_EQ(run->records.requests.size(), 1);
  const RequestRecord& record = run->records.requests[0];
  EXPECT_EQ(record.first_scheduled, At(1000));
  EXPECT_EQ(record.first_token, At(1000 + 139 + 115));
  EXPECT_EQ(record.last_token, At(1000 + 139 + 115 + 152 + 153));
  EXPECT_EQ(record.longest_gap, SimDuration::Nanos(153));
  ASSERT_EQ(run->records.iterations.size(), 4);
  EXPECT_EQ(run->records.iterations[0].used_blocks, 3);
  EXPECT_EQ(run->records.iterations[1].prefill_context_tokens, 32);
  EXPECT_EQ(run->records.iterations[3].decode_kv_tokens, 41);
  EXPECT_EQ(run->metrics.completed(), 1);
  EXPECT_EQ(run->metrics.tbt().count(), 2);
  EXPECT_EQ(run->free_blocks_at_end, 1000);
}

TEST(ReplicaTest, AnArrivalAtTheEndOfAnIterationJoinsTheNext) {
  ListWorkload workload;
  workload.Add(At(0), 16, 10);
  workload.Add(At(100), 16, 1);
  const auto run = Simulate({}, std::make_unique<ChunkPolicy>(64), workload);
  ASSERT_OK(run->status);
  EXPECT_EQ(run->records.ById(1).first_scheduled, At(100));
  EXPECT_EQ(run->records.ById(1).first_token, At(200));
}

TEST(ReplicaTest, ALateArrivalWaitsForTheIterationInFlight) {
  ListWorkload workload;
  workload.Add(At(0), 16, 10);
  workload.Add(At(501), 16, 1);
  const auto run = Simulate({}, std::make_unique<ChunkPolicy>(64), workload);
  ASSERT_OK(run->status);
  EXPECT_EQ(run->records.ById(1).first_scheduled, At(600));
  EXPECT_EQ(run->records.ById(1).queueing_delay(), SimDuration::Nanos(99));
}

TEST(ReplicaTest, AsyncSchedulingSeesArrivalsAndFreedBlocksOneIterationLater) {
  // Two blocks of 16: request 1 must wait for those of request 0.
  ListWorkload workload;
  workload.Add(At(0), 17, 2);
  workload.Add(At(50), 17, 1);
  ReplicaSetup setup;
  setup.num_blocks = 2;
  const auto sync =
      Simulate(setup, std::make_unique<ChunkPolicy>(64), workload);
  ASSERT_OK(sync->status);
  EXPECT_EQ(sync->records.ById(1).first_scheduled, At(200));

  // With room for both: arrived during the first iteration, so planned for the
  // third.
  setup.async_scheduling = true;
  setup.num_blocks = 10;
  const auto roomy =
      Simulate(setup, std::make_unique<ChunkPolicy>(64), workload);
  ASSERT_OK(roomy->status);
  EXPECT_EQ(roomy->records.ById(0).last_token, At(200));
  EXPECT_EQ(roomy->records.ById(1).first_scheduled, At(200));

  // Once nothing is in flight, blocks count at once.
  setup.num_blocks = 2;
  const auto tight =
      Simulate(setup, std::make_unique<ChunkPolicy>(64), workload);
  ASSERT_OK(tight->status);
  EXPECT_EQ(tight->records.ById(1).first_scheduled, At(200));
  EXPECT_EQ(tight->free_blocks_at_end, 2);
}

TEST(ReplicaTest, GapsAreSplitBetweenOwnWorkAndPrefill) {
  ListWorkload workload;
  workload.Add(At(0), 16, 4);
  workload.Add(At(150), 32, 1);
  ReplicaSetup setup;
  setup.ns = {.iteration = 100, .prefill_token = 10};
  const auto run = Simulate(setup, std::make_unique<ChunkPolicy>(64), workload);
  ASSERT_OK(run->status);
  // Request 0: prompt until 260; the prompt of request 1, 320 ns, shares the
  // first of its three gaps.
  const InterferenceLedger& ledger = run->metrics.ledger();
  EXPECT_DOUBLE_EQ(ledger.own_work, 300);
  EXPECT_DOUBLE_EQ(ledger.prefill, 320);
  EXPECT_DOUBLE_EQ(ledger.waiting, 0);
  EXPECT_EQ(run->records.ById(0).longest_gap, SimDuration::Nanos(420));
  EXPECT_DOUBLE_EQ(ledger.total(), run->metrics.tbt().sum_nanos());
}

TEST(ReplicaTest, PreemptionRecomputesAndIsCounted) {
  // Five blocks of 4: two requests of 8 + 6 tokens cannot both end at once.
  ListWorkload workload;
  workload.Add(At(0), 8, 6);
  workload.Add(At(0), 8, 6);
  ReplicaSetup setup;
  setup.num_blocks = 5;
  setup.block_size = 4;
  const auto run = Simulate(setup, std::make_unique<ChunkPolicy>(64), workload);
  ASSERT_OK(run->status);
  EXPECT_EQ(run->metrics.completed(), 2);
  EXPECT_EQ(run->records.ById(0).preemptions, 0);
  EXPECT_GE(run->records.ById(1).preemptions, 1);
  EXPECT_GE(run->records.ById(1).recomputed_tokens, 8);
  EXPECT_GT(run->metrics.ledger().recomputation, 0);
  EXPECT_NEAR(run->metrics.ledger().total(), run->metrics.tbt().sum_nanos(),
              1e-6);
  EXPECT_EQ(run->free_blocks_at_end, 5);
}

TEST(ReplicaTest, APrefixIsFoundOnceItIsComputed) {
  ListWorkload workload;
  for (int i = 0; i < 2; ++i) {
    workload.Add(At(i * 10000), 64, 2).segments = {{/*content_id=*/5, 48}};
  }
  ReplicaSetup setup;
  setup.prefix_caching = true;
  const auto run = Simulate(setup, std::make_unique<ChunkPolicy>(64), workload);
  ASSERT_OK(run->status);
  EXPECT_EQ(run->records.ById(0).prefix_hit_tokens, 0);
  EXPECT_EQ(run->records.ById(1).prefix_hit_tokens, 48);
  EXPECT_EQ(run->metrics.prefill_tokens_computed(), 64 + 16);
}

TEST(ReplicaTest, WhatCanNeverFitIsRejected) {
  ListWorkload workload;
  workload.Add(At(0), 8, 2);
  workload.Add(At(0), 10'000'000, 2);
  workload.Add(At(0), 8, 2);
  const auto run = Simulate({}, std::make_unique<ChunkPolicy>(64), workload);
  ASSERT_OK(run->status);
  EXPECT_EQ(run->metrics.completed(), 2);
  EXPECT_EQ(run->metrics.rejected(), 1);
  EXPECT_THAT(run->records.ById(1).rejection, HasSubstr("max_model_len"));
}

class IdlePolicy final : public Policy {
 public:
  void Plan(const EngineView& view, IterationPlan& plan) override {}
};

TEST(ReplicaTest, APolicyThatDoesNothingIsNamed) {
  ListWorkload workload;
  workload.Add(At(0), 8, 2);
  const auto run = Simulate({}, std::make_unique<IdlePolicy>(), workload);
  EXPECT_THAT(run->status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                    HasSubstr("policy \"test\", iteration 0")));
}

class GreedyPolicy final : public Policy {
 public:
  void Plan(const EngineView& view, IterationPlan& plan) override {
    for (const Request& request : view.waiting()) {
      plan.Run(request, request.remaining());
    }
  }
};

TEST(ReplicaTest, AnIllegalPlanIsRefusedWithItsRule) {
  ListWorkload workload;
  for (int i = 0; i < 3; ++i) workload.Add(At(0), 8, 2);
  ReplicaSetup setup;
  setup.limits.max_num_seqs = 2;
  const auto run = Simulate(setup, std::make_unique<GreedyPolicy>(), workload);
  EXPECT_THAT(run->status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                    HasSubstr("max_num_seqs is 2")));
}

}  // namespace
}  // namespace interleave::sim
