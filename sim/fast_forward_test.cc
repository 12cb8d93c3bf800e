// Fast-forward against step by step, bit for bit, for every policy.

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "base/sim_time.h"
#include "base/status_testing.h"
#include "gtest/gtest.h"
#include "scheduler/registry.h"
#include "sim/metrics/metrics.h"
#include "sim/testing/list_workload.h"
#include "sim/testing/run_replica.h"

namespace interleave::sim {
namespace {

auto Fields(const IterationRecord& r) {
  return std::make_tuple(
      r.index, r.start, r.end, r.device, r.host, r.prefill_chunks,
      r.prefill_tokens, r.prefill_context_tokens, r.decodes, r.decode_kv_tokens,
      r.recomputed_tokens, r.preemptions, r.waiting, r.running, r.used_blocks);
}

auto Fields(const RequestRecord& r) {
  return std::make_tuple(r.id, r.first_scheduled, r.first_token, r.last_token,
                         r.longest_gap, r.preemptions, r.prefix_hit_tokens,
                         r.recomputed_tokens, r.rejection);
}

// Bursts and lulls, short and long requests, shared prefixes.
ListWorkload RandomWorkload(uint64_t seed) {
  std::mt19937_64 random(seed);
  ListWorkload workload;
  int64_t now = 0;
  const int64_t mean_gap = 1 + static_cast<int64_t>(random() % 30000);
  for (int i = 0; i < 60; ++i) {
    if (random() % 4 != 0) {
      now += static_cast<int64_t>(random() % static_cast<uint64_t>(mean_gap));
    }
    const int32_t prompt = 1 + static_cast<int32_t>(random() % 150);
    const int32_t output = 1 + static_cast<int32_t>(random() % 120);
    scheduler::RequestSpec& spec =
        workload.Add(SimTime::FromNanos(now), prompt, output);
    spec.max_output_tokens += static_cast<int32_t>(random() % 30);
    spec.priority = static_cast<int32_t>(random() % 3);
    if (random() % 3 == 0) {
      spec.segments = {{static_cast<int64_t>(random() % 3), prompt / 2}};
    }
  }
  return workload;
}

ReplicaSetup RandomSetup(uint64_t seed) {
  std::mt19937_64 random(seed ^ 0xabcdef);
  ReplicaSetup setup;
  setup.block_size = 1 << (random() % 5);
  if (random() % 5 == 0) setup.block_size = 7;
  // Some are so small that requests are preempted all the time.
  const int64_t tokens = 300 + static_cast<int64_t>(random() % 2000);
  setup.num_blocks = static_cast<int32_t>(tokens / setup.block_size + 1);
  setup.prefix_caching = random() % 2 == 0;
  setup.limits.max_num_seqs = 1 + static_cast<int32_t>(random() % 40);
  setup.limits.max_num_batched_tokens =
      setup.limits.max_num_seqs + 8 + static_cast<int32_t>(random() % 200);
  setup.ns = {.iteration = 100 + static_cast<int64_t>(random() % 1000),
              .prefill_token = static_cast<int64_t>(random() % 20),
              .decode = static_cast<int64_t>(random() % 20),
              .kv_token = static_cast<int64_t>(random() % 3)};
  setup.async_scheduling = random() % 3 == 0;
  if (random() % 3 == 0) {
    // Some recover within an iteration, some never while they run.
    setup.throttle = {
        .time_constant_us = 0.1 * static_cast<double>(1 + random() % 1000),
        .compute_slowdown = 0.3,
        .memory_slowdown = 0.1,
        .memory_tokens = static_cast<double>(random() % 20),
        .compute_tokens = 40,
        .memory_state = random() % 2 == 0 ? 0.0 : 0.4};
  }
  setup.host.constant = SimDuration::Nanos(random() % 50);
  setup.host.per_sequence = SimDuration::Nanos(random() % 5);
  return setup;
}

class FastForwardTest : public testing::TestWithParam<std::string> {};

TEST_P(FastForwardTest, EqualsStepByStep) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ReplicaSetup setup = RandomSetup(seed);
    ASSERT_OK_AND_ASSIGN(auto stepping,
                         scheduler::CreatePolicy(GetParam(), ""));
    ASSERT_OK_AND_ASSIGN(auto skipping,
                         scheduler::CreatePolicy(GetParam(), ""));
    setup.fast_forward = false;
    const auto slow =
        RunReplica(setup, std::move(stepping), RandomWorkload(seed));
    setup.fast_forward = true;
    const auto fast =
        RunReplica(setup, std::move(skipping), RandomWorkload(seed));
    ASSERT_OK(slow->status);
    ASSERT_OK(fast->status);
    ASSERT_EQ(slow->metrics.completed() + slow->metrics.rejected(), 60);
    EXPECT_EQ(slow->free_blocks_at_end, setup.num_blocks);

    ASSERT_EQ(slow->records.iterations.size(), fast->records.iterations.size());
    for (size_t i = 0; i < slow->records.iterations.size(); ++i) {
      ASSERT_EQ(Fields(slow->records.iterations[i]),
                Fields(fast->records.iterations[i]))
          << "iteration " << i;
    }
    ASSERT_EQ(slow->records.requests.size(), fast->records.requests.size());
    for (size_t i = 0; i < slow->records.requests.size(); ++i) {
      ASSERT_EQ(Fields(slow->records.requests[i]),
                Fields(fast->records.requests[i]))
          << "request " << slow->records.requests[i].id;
    }
    EXPECT_EQ(slow->fingerprint, fast->fingerprint);
    EXPECT_EQ(slow->metrics.tbt().QuantileNanos(0.99),
              fast->metrics.tbt().QuantileNanos(0.99));
    EXPECT_EQ(slow->metrics.ledger().own_work, fast->metrics.ledger().own_work);
    EXPECT_EQ(slow->metrics.mean_used_blocks(),
              fast->metrics.mean_used_blocks());

    setup.keep_records = false;
    ASSERT_OK_AND_ASSIGN(auto leaping, scheduler::CreatePolicy(GetParam(), ""));
    const auto fastest =
        RunReplica(setup, std::move(leaping), RandomWorkload(seed));
    ASSERT_OK(fastest->status);
    EXPECT_EQ(slow->fingerprint, fastest->fingerprint);
    EXPECT_EQ(slow->metrics.tbt().QuantileNanos(0.99),
              fastest->metrics.tbt().QuantileNanos(0.99));
    EXPECT_EQ(slow->metrics.e2e().QuantileNanos(0.5),
              fastest->metrics.e2e().QuantileNanos(0.5));
  }
}

// Every token's gap is accounted for, and the longest of a request is what a
// reader of all its token times would have found.
TEST_P(FastForwardTest, LedgerSumsToTheGaps) {
  for (uint64_t seed = 100; seed < 120; ++seed) {
    ASSERT_OK_AND_ASSIGN(auto policy, scheduler::CreatePolicy(GetParam(), ""));
    const auto run =
        RunReplica(RandomSetup(seed), std::move(policy), RandomWorkload(seed));
    ASSERT_OK(run->status);
    double gaps = 0;
    int64_t count = 0;
    for (const RequestRecord& request : run->records.requests) {
      if (!request.rejection.empty()) continue;
      const SimDuration sum = request.last_token - request.first_token;
      gaps += static_cast<double>(sum.nanos());
      count += request.output_tokens - 1;
      // No gap is above the sum of all, none below the mean.
      EXPECT_LE(request.longest_gap, sum);
      EXPECT_GE(request.longest_gap * std::max(1, request.output_tokens - 1),
                sum);
    }
    EXPECT_EQ(run->metrics.tbt().count(), count);
    EXPECT_NEAR(run->metrics.tbt().sum_nanos(), gaps, 1e-6);
    EXPECT_NEAR(run->metrics.ledger().total(), gaps, 1e-6 * gaps + 1e-6);
  }
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& policy : scheduler::RegisteredPolicies()) {
    names.push_back(policy.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, FastForwardTest, testing::ValuesIn(Names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace interleave::sim
