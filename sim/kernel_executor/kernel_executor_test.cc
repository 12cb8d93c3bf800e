#include "sim/kernel_executor/kernel_executor.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/sim_time.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/registry.h"
#include "scheduler/request.h"
#include "scheduler/request_spec.h"
#include "sim/kernel_executor/batch_runner.h"
#include "sim/metrics/metrics.h"
#include "sim/replica.h"
#include "sim/simulation.h"
#include "sim/testing/linear_cost_model.h"
#include "sim/testing/list_workload.h"
#include "sim/testing/run_replica.h"

namespace interleave::sim {
namespace {

using ::testing::HasSubstr;

constexpr int32_t kVocab = 997;
constexpr int32_t kBlockSize = 4;
constexpr int64_t kBlocks = 24;

// What the fake model samples after these tokens.
int32_t NextToken(absl::Span<const int32_t> tokens) {
  uint32_t hash = 17;
  for (const int32_t token : tokens) {
    hash = hash * 31 + static_cast<uint32_t>(token) + 7;
  }
  return static_cast<int32_t>(hash % kVocab);
}

// A runner whose cache holds tokens, so that a sample depends on every slot
// that a sequence's blocks name.
class FakeRunner final : public BatchRunner {
 public:
  explicit FakeRunner(std::vector<size_t>* sizes)
      : slots_(kBlocks * kBlockSize, -1), sizes_(sizes) {}

  absl::StatusOr<DecoderTiming> Run(const DecoderBatch& batch,
                                    DecoderOutput* output) override {
    sizes_->push_back(batch.tokens.size());
    output->tokens.clear();
    output->logit_gaps.clear();
    size_t next = 0;
    for (const DecoderSequence& sequence : batch.sequences) {
      std::vector<int32_t> tokens;
      for (int32_t i = 0; i < sequence.cached_tokens + sequence.num_tokens;
           ++i) {
        int32_t& slot = slots_[static_cast<size_t>(
            sequence.blocks[static_cast<size_t>(i / kBlockSize)] * kBlockSize +
            i % kBlockSize)];
        if (i >= sequence.cached_tokens) slot = batch.tokens[next++];
        tokens.push_back(slot);
      }
      if (sequence.sample) {
        output->tokens.push_back(NextToken(tokens));
        output->logit_gaps.push_back(1);
      }
    }
    EXPECT_EQ(next, batch.tokens.size());
    return DecoderTiming{
        SimDuration::Nanos(1000 + 10 * static_cast<int64_t>(next)),
        SimDuration::Nanos(3)};
  }
  int32_t vocab_size() const override { return kVocab; }
  int32_t block_size() const override { return kBlockSize; }
  int64_t num_blocks() const override { return kBlocks; }
  std::string Description() const override { return "fake"; }

 private:
  std::vector<int32_t> slots_;
  std::vector<size_t>* sizes_;
};

// What a request generates if nothing goes wrong.
std::vector<int32_t> Expected(const scheduler::RequestSpec& spec) {
  std::vector<int32_t> tokens(static_cast<size_t>(spec.prompt_tokens));
  scheduler::RequestTokens(&spec).Read(0, absl::MakeSpan(tokens));
  for (int32_t& token : tokens) token %= kVocab;
  for (int32_t i = 0; i < spec.output_tokens; ++i) {
    tokens.push_back(NextToken(tokens));
  }
  return {tokens.begin() + spec.prompt_tokens, tokens.end()};
}

struct KernelRun {
  absl::Status status;
  Metrics metrics;
  Recorder records;
  std::map<int64_t, std::vector<int32_t>> tokens;
  std::vector<size_t> batch_sizes;
};

struct KernelSetup {
  std::string policy = "unified_budget";
  std::string options;
  int64_t max_tokens = 1000;
  bool prefix_caching = false;
  bool predict = false;
  int32_t num_host_blocks = 0;
};

std::unique_ptr<KernelRun> RunKernels(const KernelSetup& setup,
                                      ListWorkload workload) {
  auto run = std::make_unique<KernelRun>();
  KernelExecutor::Options options;
  options.max_tokens = setup.max_tokens;
  options.predict = setup.predict;
  options.on_done = [&](int64_t request,
                        absl::Span<const GeneratedToken> tokens) {
    for (const GeneratedToken& token : tokens) {
      EXPECT_EQ(token.logit_gap, 1);
      run->tokens[request].push_back(token.token);
    }
  };
  auto executor = std::make_unique<KernelExecutor>(
      std::make_unique<FakeRunner>(&run->batch_sizes),
      std::make_unique<LinearCostModel>(LinearCostModel::Coefficients{
          .iteration = 100, .prefill_token = 10, .decode = 50}),
      HostOverhead{}, options);
  absl::StatusOr<std::unique_ptr<scheduler::Policy>> policy =
      scheduler::CreatePolicy(setup.policy, setup.options);
  EXPECT_THAT(policy, IsOk());
  Replica::Options replica;
  replica.engine.limits = {
      .max_num_seqs = 8, .max_num_batched_tokens = 16, .max_model_len = 80};
  replica.engine.cache.num_blocks = kBlocks;
  replica.engine.cache.block_size = kBlockSize;
  replica.engine.cache.enable_prefix_caching = setup.prefix_caching;
  replica.engine.cache.num_host_blocks = setup.num_host_blocks;
  std::vector<std::unique_ptr<Replica>> replicas;
  absl::StatusOr<std::unique_ptr<Replica>> made =
      Replica::Create(replica, *std::move(policy), std::move(executor),
                      &run->metrics, &workload, &run->records);
  EXPECT_THAT(made, IsOk());
  replicas.push_back(*std::move(made));
  RoundRobinRouter router;
  Simulation simulation(&workload, &router, std::move(replicas));
  run->status = simulation.Run();
  return run;
}

// More than the blocks hold at once, so that some are preempted.
ListWorkload CrowdedWorkload() {
  ListWorkload workload;
  for (int32_t i = 0; i < 12; ++i) {
    workload.Add(SimTime::FromNanos(i * 1500), 5 + i * 7 % 23, 9 + i % 5);
  }
  return workload;
}

void ExpectAllTokens(const KernelRun& run, ListWorkload workload) {
  const int64_t requests = workload.TotalRequests();
  for (int64_t i = 0; i < requests; ++i) {
    const scheduler::RequestSpec spec = workload.Next();
    ASSERT_TRUE(run.tokens.count(spec.id)) << spec.id;
    EXPECT_EQ(run.tokens.at(spec.id), Expected(spec)) << spec.id;
  }
}

TEST(KernelExecutorTest, TokensAreFedBackThroughChunksAndPreemptions) {
  for (const char* policy :
       {"unified_budget", "prefill_first", "stall_free", "orca"}) {
    SCOPED_TRACE(policy);
    KernelSetup setup;
    setup.policy = policy;
    const std::unique_ptr<KernelRun> run = RunKernels(setup, CrowdedWorkload());
    ASSERT_THAT(run->status, IsOk());
    ExpectAllTokens(*run, CrowdedWorkload());
    if (setup.policy == "unified_budget") {
      int64_t recomputed = 0;
      for (const RequestRecord& record : run->records.requests) {
        recomputed += record.recomputed_tokens;
      }
      EXPECT_GT(recomputed, 0);
    }
  }
}

TEST(KernelExecutorTest, PrefixesThatAreFoundHoldTheSameTokens) {
  const auto make = [] {
    ListWorkload workload;
    for (int32_t i = 0; i < 6; ++i) {
      workload.Add(SimTime::FromNanos(i * 20000), 20 + i, 6).segments = {
          {7, 17}};
    }
    return workload;
  };
  KernelSetup setup;
  setup.prefix_caching = true;
  const std::unique_ptr<KernelRun> run = RunKernels(setup, make());
  ASSERT_THAT(run->status, IsOk());
  ExpectAllTokens(*run, make());
  int64_t hits = 0;
  for (const RequestRecord& record : run->records.requests) {
    hits += record.prefix_hit_tokens;
  }
  EXPECT_EQ(hits, 5 * 16);  // whole blocks of the 17 shared tokens
}

TEST(KernelExecutorTest, RunsWhatIsTooMuchAtOnceInParts) {
  ListWorkload workload;
  workload.Add(SimTime::Zero(), 30, 3);
  workload.Add(SimTime::Zero(), 9, 3);
  KernelSetup setup;
  setup.policy = "orca";
  setup.max_tokens = 16;
  const std::unique_ptr<KernelRun> run = RunKernels(setup, workload);
  ASSERT_THAT(run->status, IsOk());
  ExpectAllTokens(*run, workload);
  // 39 prompt tokens, then two decodes twice.
  EXPECT_EQ(run->batch_sizes, (std::vector<size_t>{16, 16, 7, 2, 2}));
  EXPECT_EQ(run->records.iterations[0].device,
            SimDuration::Nanos(3 * 1000 + 10 * 39));
}

TEST(KernelExecutorTest, ReportsWhatIsMeasuredBesideWhatIsPredicted) {
  ListWorkload workload;
  workload.Add(SimTime::Zero(), 8, 5);
  workload.Add(SimTime::FromNanos(1), 8, 5);
  KernelSetup setup;
  const std::unique_ptr<KernelRun> measured = RunKernels(setup, workload);
  ASSERT_THAT(measured->status, IsOk());
  EXPECT_EQ(measured->records.iterations[0].device, SimDuration::Nanos(1080));
  EXPECT_EQ(measured->records.iterations[0].predicted, SimDuration::Zero());
  setup.predict = true;
  const std::unique_ptr<KernelRun> both = RunKernels(setup, workload);
  ASSERT_THAT(both->status, IsOk());
  // 8 prompt tokens; then 8 beside a decode; then two decodes.
  const std::vector<IterationRecord>& records = both->records.iterations;
  ASSERT_GE(records.size(), 3u);
  EXPECT_EQ(records[0].predicted, SimDuration::Nanos(180));
  EXPECT_EQ(records[1].predicted, SimDuration::Nanos(230));
  EXPECT_EQ(records[1].device, SimDuration::Nanos(1090));
  EXPECT_EQ(records[2].predicted, SimDuration::Nanos(200));
  EXPECT_EQ(records[2].device, SimDuration::Nanos(1020));
  for (const IterationRecord& record : records) {
    EXPECT_EQ(record.end - record.start, record.device + record.host);
  }
}

}  // namespace
}  // namespace interleave::sim
