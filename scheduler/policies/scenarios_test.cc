// What the engines that the policies come from do on small inputs, iteration by
// iteration.  The numbers are those of the engines' own tests, or worked by
// hand where an engine's state could not be had in the same way.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/sim_time.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/conformance/engine_driver.h"
#include "scheduler/engine_view.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/registry.h"
#include "scheduler/request.h"
#include "scheduler/request_spec.h"

namespace interleave::scheduler {
namespace {

using Chunk = EngineDriver::Chunk;
using Iteration = EngineDriver::Iteration;
using EngineSetup = EngineDriver::Setup;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

RequestSpec Spec(int64_t id, int32_t prompt, int32_t output,
                 int32_t priority = 0) {
  RequestSpec spec;
  spec.id = id;
  spec.prompt_tokens = prompt;
  spec.output_tokens = output;
  spec.priority = priority;
  return spec;
}

std::unique_ptr<EngineDriver> MakeDriver(const EngineSetup& setup,
                                         absl::string_view policy,
                                         absl::string_view options = "") {
  absl::StatusOr<std::unique_ptr<EngineDriver>> driver =
      EngineDriver::Create(setup, policy, options);
  EXPECT_OK(driver);
  return driver.ok() ? *std::move(driver) : nullptr;
}

Iteration StepOf(EngineDriver& driver) {
  absl::StatusOr<Iteration> iteration = driver.Step();
  EXPECT_OK(iteration);
  return iteration.ok() ? *std::move(iteration) : Iteration();
}

std::vector<Iteration> RunOf(EngineDriver& driver) {
  absl::StatusOr<std::vector<Iteration>> iterations = driver.RunToEnd();
  EXPECT_OK(iterations);
  return iterations.ok() ? *std::move(iterations) : std::vector<Iteration>();
}

std::vector<int64_t> Waiting(const EngineDriver& driver) {
  std::vector<int64_t> ids;
  for (const Request& request : driver.state().waiting()) {
    ids.push_back(request.id());
  }
  return ids;
}

// Ids in the order in which their first chunks were computed.
std::vector<int64_t> OrderOfFirstChunks(const std::vector<Iteration>& run) {
  std::vector<int64_t> order;
  for (const Iteration& iteration : run) {
    for (const Chunk& chunk : iteration.chunks) {
      if (std::find(order.begin(), order.end(), chunk.id) == order.end()) {
        order.push_back(chunk.id);
      }
    }
  }
  return order;
}

int64_t NumPreemptions(const std::vector<Iteration>& run) {
  int64_t count = 0;
  for (const Iteration& iteration : run) {
    count += static_cast<int64_t>(iteration.preempted.size());
  }
  return count;
}

// Whether a request computes anything in an iteration.
bool Runs(const Iteration& iteration, int64_t id) {
  return std::count(iteration.decodes.begin(), iteration.decodes.end(), id) >
             0 ||
         std::any_of(iteration.chunks.begin(), iteration.chunks.end(),
                     [id](const Chunk& chunk) { return chunk.id == id; });
}

// Expects that a request runs in every iteration of [begin, end).
void ExpectRunsThroughout(const std::vector<Iteration>& run, int64_t id,
                          size_t begin, size_t end) {
  ASSERT_LE(end, run.size());
  for (size_t i = begin; i < end; ++i) {
    EXPECT_TRUE(Runs(run[i], id)) << "request " << id << " iteration " << i;
  }
}

// The longest run of iterations in which a request that exists does not
// compute anything.
int64_t LongestStall(const std::vector<Iteration>& run, int64_t id) {
  int64_t longest = 0;
  int64_t stall = 0;
  for (const Iteration& iteration : run) {
    stall = Runs(iteration, id) ? 0 : stall + 1;
    longest = std::max(longest, stall);
    if (std::count(iteration.finished.begin(), iteration.finished.end(), id) >
        0) {
      break;
    }
  }
  return longest;
}

// ---- One budget for all (vLLM v1) ----

TEST(UnifiedBudgetScenario, ShortPromptsGoTogether) {
  EngineSetup setup;
  setup.limits.max_num_batched_tokens = 8192;
  const auto driver = MakeDriver(setup, "unified_budget");
  std::vector<Chunk> all;
  for (int64_t id = 0; id < 10; ++id) {
    ASSERT_TRUE(driver->Submit(Spec(id, 10, 5)));
    all.push_back({id, 10});
  }
  EXPECT_EQ(StepOf(*driver).chunks, all);
}

TEST(UnifiedBudgetScenario, ThresholdCutsLongPrompts) {
  EngineSetup setup;
  setup.limits.max_num_batched_tokens = 1024;
  const auto driver =
      MakeDriver(setup, "unified_budget", "long_prefill_token_threshold: 400");
  for (int64_t id = 0; id < 3; ++id) {
    ASSERT_TRUE(driver->Submit(Spec(id, 800, 5)));
  }
  for (int step = 0; step < 2; ++step) {
    EXPECT_THAT(StepOf(*driver).chunks,
                ElementsAre(Chunk{0, 400}, Chunk{1, 400}, Chunk{2, 224}));
  }
  const Iteration third = StepOf(*driver);
  EXPECT_THAT(third.decodes, ElementsAre(0, 1));
  EXPECT_THAT(third.chunks, ElementsAre(Chunk{2, 352}));
}

TEST(UnifiedBudgetScenario, PromptsThatMayNotBeCutBlockTheQueue) {
  EngineSetup setup;
  setup.limits.max_num_batched_tokens = 1024;
  setup.limits.max_num_seqs = 3;
  const auto cut = MakeDriver(setup, "unified_budget");
  const auto whole =
      MakeDriver(setup, "unified_budget", "chunked_prefill: false");
  int64_t id = 0;
  for (const int32_t prompt : {800, 800, 10, 10}) {
    ASSERT_TRUE(cut->Submit(Spec(id, prompt, 5)));
    ASSERT_TRUE(whole->Submit(Spec(id, prompt, 5)));
    ++id;
  }
  EXPECT_THAT(StepOf(*cut).chunks, ElementsAre(Chunk{0, 800}, Chunk{1, 224}));
  EXPECT_THAT(StepOf(*whole).chunks, ElementsAre(Chunk{0, 800}));
}

TEST(UnifiedBudgetScenario, PromptsThatCanNeverBeComputedWholeAreRejected) {
  EngineSetup setup;
  setup.limits.max_num_batched_tokens = 100;
  const auto driver =
      MakeDriver(setup, "unified_budget", "chunked_prefill: false");
  ASSERT_TRUE(driver->Submit(Spec(0, 101, 5)));
  ASSERT_TRUE(driver->Submit(Spec(1, 100, 2)));
  const std::vector<Iteration> run = RunOf(*driver);
  ASSERT_EQ(run.size(), 2);
  EXPECT_THAT(run[0].rejected, ElementsAre(0));
  EXPECT_THAT(run[0].chunks, ElementsAre(Chunk{1, 100}));
  EXPECT_THAT(run[1].finished, ElementsAre(1));
}

TEST(UnifiedBudgetScenario, LastAdmittedGivesWayToADecode) {
  EngineSetup setup;
  setup.limits.max_num_batched_tokens = 100;
  setup.num_blocks = 10;
  const auto driver = MakeDriver(setup, "unified_budget");
  ASSERT_TRUE(driver->Submit(Spec(0, 80, 4)));
  ASSERT_TRUE(driver->Submit(Spec(1, 80, 3)));
  EXPECT_THAT(StepOf(*driver).chunks, ElementsAre(Chunk{0, 80}, Chunk{1, 20}));
  // The decode takes a sixth block, and two are too few for the rest of 1.
  const Iteration second = StepOf(*driver);
  EXPECT_THAT(second.decodes, ElementsAre(0));
  EXPECT_THAT(second.chunks, IsEmpty());
  EXPECT_THAT(second.preempted, ElementsAre(1));
  EXPECT_THAT(Waiting(*driver), ElementsAre(1));
  // 1 wants 5 blocks and 4 are free until 0 ends with its fourth token.
  const std::vector<Iteration> rest = RunOf(*driver);
  ASSERT_EQ(rest.size(), 5);
  EXPECT_THAT(rest[1].finished, ElementsAre(0));
  EXPECT_THAT(rest[2].chunks, ElementsAre(Chunk{1, 80}));
  EXPECT_THAT(rest[4].finished, ElementsAre(1));
}

TEST(UnifiedBudgetScenario, FirstChunkAloneAdmitsWhereAllowed) {
  EngineSetup setup;
  setup.limits.max_num_batched_tokens = 64;
  setup.num_blocks = 10;
  const auto whole = MakeDriver(setup, "unified_budget");
  const auto chunk =
      MakeDriver(setup, "unified_budget", "full_prompt_must_fit: false");
  for (EngineDriver* driver : {whole.get(), chunk.get()}) {
    ASSERT_TRUE(driver->Submit(Spec(0, 48, 30)));
    ASSERT_TRUE(driver->Submit(Spec(1, 144, 3)));
  }
  EXPECT_THAT(StepOf(*whole).chunks, ElementsAre(Chunk{0, 48}));
  EXPECT_THAT(StepOf(*chunk).chunks, ElementsAre(Chunk{0, 48}, Chunk{1, 16}));
}

struct PriorityCase {
  std::vector<int32_t> priorities;
  int32_t max_num_seqs;
  std::vector<int64_t> first;
  std::vector<int64_t> left_waiting;
};

TEST(UnifiedBudgetScenario, UrgentRequestsAreAdmittedFirst) {
  const std::vector<PriorityCase> cases = {
      {{2, 0, 1}, 8, {1, 2, 0}, {}},       {{1, 1, 1}, 8, {0, 1, 2}, {}},
      {{2, 1, 1, 0}, 8, {3, 1, 2, 0}, {}}, {{3, 2, 0}, 1, {2}, {1, 0}},
      {{3, 1, 2, 0}, 2, {3, 1}, {2, 0}},
  };
  for (const PriorityCase& c : cases) {
    EngineSetup setup;
    setup.limits.max_num_seqs = c.max_num_seqs;
    const auto driver = MakeDriver(setup, "unified_budget", "order: PRIORITY");
    for (size_t i = 0; i < c.priorities.size(); ++i) {
      ASSERT_TRUE(driver->Submit(
          Spec(static_cast<int64_t>(i), 10, 5, c.priorities[i])));
    }
    EXPECT_EQ(OrderOfFirstChunks({StepOf(*driver)}), c.first);
    EXPECT_EQ(Waiting(*driver), c.left_waiting);
  }
}

TEST(UnifiedBudgetScenario, OneAtATimeInOrderOfPriority) {
  EngineSetup setup;
  setup.limits.max_num_seqs = 1;
  const auto driver = MakeDriver(setup, "unified_budget", "order: PRIORITY");
  const std::vector<int32_t> priorities = {5, 1, 8, 3, 2, 7, 4, 6};
  for (size_t i = 0; i < priorities.size(); ++i) {
    ASSERT_TRUE(
        driver->Submit(Spec(static_cast<int64_t>(i), 10, 2, priorities[i])));
  }
  std::vector<int32_t> served;
  for (const int64_t id : OrderOfFirstChunks(RunOf(*driver))) {
    served.push_back(priorities[static_cast<size_t>(id)]);
  }
  EXPECT_THAT(served, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(UnifiedBudgetScenario, LeastUrgentIsPreempted) {
  EngineSetup setup;
  setup.num_blocks = 6;
  const auto driver = MakeDriver(setup, "unified_budget", "order: PRIORITY");
  // 0, the least urgent, was admitted first.
  ASSERT_TRUE(driver->Submit(Spec(0, 31, 20, /*priority=*/5)));
  StepOf(*driver);
  ASSERT_TRUE(driver->Submit(Spec(1, 31, 5, /*priority=*/1)));
  ASSERT_TRUE(driver->Submit(Spec(2, 31, 5, /*priority=*/2)));
  StepOf(*driver);
  // 0 takes a third block after its 32nd token is in the cache: no block is
  // left, and it is the one to go.
  const Iteration third = StepOf(*driver);
  EXPECT_THAT(third.preempted, ElementsAre(0));
  EXPECT_EQ(NumPreemptions(RunOf(*driver)), 0);
}

TEST(UnifiedBudgetScenario, UnservableRequestIsRefusedAndOthersProceed) {
  EngineSetup setup;
  setup.num_blocks = 49;
  setup.limits.max_model_len = 4096;
  const auto driver = MakeDriver(setup, "unified_budget");
  EXPECT_FALSE(driver->Submit(Spec(0, 1002, 10)));
  EXPECT_TRUE(driver->Submit(Spec(1, 100, 10)));
  EXPECT_EQ(RunOf(*driver).size(), 10);
}

// ---- Prefill first (vLLM v0) ----

TEST(PrefillFirstScenario, PreemptedRequestIsComputedAnewWithWhatItGenerated) {
  EngineSetup setup;
  setup.block_size = 4;
  setup.num_blocks = 2;
  const auto driver = MakeDriver(setup, "prefill_first");
  ASSERT_TRUE(driver->Submit(Spec(0, 4, 2)));
  ASSERT_TRUE(driver->Submit(Spec(1, 4, 3)));
  EXPECT_THAT(StepOf(*driver).chunks, ElementsAre(Chunk{0, 4}, Chunk{1, 4}));
  const Iteration second = StepOf(*driver);
  EXPECT_THAT(second.decodes, ElementsAre(0));
  EXPECT_THAT(second.preempted, ElementsAre(1));
  EXPECT_THAT(second.finished, ElementsAre(0));
  EXPECT_THAT(StepOf(*driver).chunks, ElementsAre(Chunk{1, 5}));
}

TEST(PrefillFirstScenario, SwappedRequestComesBackBeforeNewPrompts) {
  EngineSetup setup;
  setup.block_size = 4;
  setup.num_blocks = 2;
  setup.num_host_blocks = 4;
  const auto driver = MakeDriver(setup, "prefill_first", "preemption: SWAP");
  ASSERT_TRUE(driver->Submit(Spec(0, 4, 2)));
  ASSERT_TRUE(driver->Submit(Spec(1, 4, 3)));
  StepOf(*driver);
  ASSERT_TRUE(driver->Submit(Spec(2, 1, 1)));
  const Iteration second = StepOf(*driver);
  EXPECT_THAT(second.decodes, ElementsAre(0));
  EXPECT_THAT(second.preempted, ElementsAre(1));
  // Nothing is computed anew.
  const Iteration third = StepOf(*driver);
  EXPECT_THAT(third.decodes, ElementsAre(1));
  EXPECT_THAT(third.chunks, IsEmpty());
  const std::vector<Iteration> rest = RunOf(*driver);
  ASSERT_EQ(rest.size(), 2);
  EXPECT_THAT(rest[0].finished, ElementsAre(1));
  EXPECT_THAT(rest[1].chunks, ElementsAre(Chunk{2, 1}));
}

TEST(PrefillFirstScenario, MaxNumSeqsBoundsAdmission) {
  EngineSetup setup;
  setup.limits.max_num_seqs = 2;
  const auto driver = MakeDriver(setup, "prefill_first");
  ASSERT_TRUE(driver->Submit(Spec(0, 10, 20)));
  StepOf(*driver);
  StepOf(*driver);
  ASSERT_TRUE(driver->Submit(Spec(1, 10, 20)));
  ASSERT_TRUE(driver->Submit(Spec(2, 10, 20)));
  const Iteration iteration = StepOf(*driver);
  EXPECT_THAT(iteration.chunks, ElementsAre(Chunk{1, 10}));
  EXPECT_THAT(iteration.decodes, IsEmpty());
  EXPECT_THAT(Waiting(*driver), ElementsAre(2));
}

TEST(PrefillFirstScenario, PromptBeyondTheLimitIsRejectedAndBlocksNobody) {
  EngineSetup setup;
  setup.limits.max_model_len = 200;
  const auto driver =
      MakeDriver(setup, "prefill_first", "max_prefill_tokens: 32");
  ASSERT_TRUE(driver->Submit(Spec(0, 48, 5)));
  ASSERT_TRUE(driver->Submit(Spec(1, 20, 1)));
  const std::vector<Iteration> run = RunOf(*driver);
  ASSERT_EQ(run.size(), 1);
  EXPECT_THAT(run[0].rejected, ElementsAre(0));
  EXPECT_THAT(run[0].chunks, ElementsAre(Chunk{1, 20}));
}

TEST(PrefillFirstScenario, PromptBeyondMaxModelLenIsRefused) {
  EngineSetup setup;
  setup.limits.max_model_len = 32;
  EXPECT_FALSE(MakeDriver(setup, "prefill_first")->Submit(Spec(0, 48, 1)));
}

// ---- Chunks beside decodes ----

class ChunkScenario : public testing::TestWithParam<std::string> {};

TEST_P(ChunkScenario, ChunkFillsTheBudget) {
  EngineSetup setup;
  setup.limits.max_num_batched_tokens = 64;
  const auto driver = MakeDriver(setup, GetParam());
  ASSERT_TRUE(driver->Submit(Spec(0, 60, 5)));
  ASSERT_TRUE(driver->Submit(Spec(1, 60, 5)));
  EXPECT_THAT(StepOf(*driver).chunks, ElementsAre(Chunk{0, 60}, Chunk{1, 4}));
  const Iteration second = StepOf(*driver);
  EXPECT_THAT(second.decodes, ElementsAre(0));
  EXPECT_THAT(second.chunks, ElementsAre(Chunk{1, 56}));
}

TEST_P(ChunkScenario, NewPromptGetsWhatIsLeft) {
  EngineSetup setup;
  setup.limits.max_num_batched_tokens = 64;
  const auto driver = MakeDriver(setup, GetParam());
  ASSERT_TRUE(driver->Submit(Spec(0, 60, 5)));
  ASSERT_TRUE(driver->Submit(Spec(1, 60, 5)));
  StepOf(*driver);
  ASSERT_TRUE(driver->Submit(Spec(2, 60, 5)));
  ASSERT_TRUE(driver->Submit(Spec(3, 60, 5)));
  const Iteration second = StepOf(*driver);
  EXPECT_THAT(second.decodes, ElementsAre(0));
  EXPECT_THAT(second.chunks, ElementsAre(Chunk{1, 56}, Chunk{2, 7}));
  EXPECT_EQ(second.num_tokens(), 64);
}

TEST_P(ChunkScenario, PromptLongerThanTheBudgetIsCut) {
  EngineSetup setup;
  setup.limits.max_num_batched_tokens = 32;
  setup.limits.max_model_len = 64;
  const auto driver = MakeDriver(setup, GetParam());
  ASSERT_TRUE(driver->Submit(Spec(0, 48, 5)));
  EXPECT_THAT(StepOf(*driver).chunks, ElementsAre(Chunk{0, 32}));
  EXPECT_THAT(StepOf(*driver).chunks, ElementsAre(Chunk{0, 16}));
}

INSTANTIATE_TEST_SUITE_P(Policies, ChunkScenario,
                         testing::Values("hf_fifo", "split_fuse", "stall_free",
                                         "unified_budget"));

TEST(StallFreeScenario, ChunkShrinksWhileThePromptAdvances) {
  const auto driver =
      MakeDriver(EngineSetup(), "stall_free",
                 "shrink_stages: 4 largest_chunk_tokens: 2048 "
                 "smallest_chunk_tokens: 512 shrink_over_tokens: 8192");
  ASSERT_TRUE(driver->Submit(Spec(0, 10'000, 1)));
  std::vector<int64_t> chunks;
  for (const Iteration& iteration : RunOf(*driver)) {
    chunks.push_back(iteration.chunks[0].tokens);
  }
  EXPECT_THAT(chunks, ElementsAre(2048, 1536, 1536, 1024, 512, 512, 512, 512,
                                  512, 512, 512, 272));
}

TEST(StallFreeScenario, WatermarkHoldsBackAdmissionsOnlyWhileSomebodyRuns) {
  EngineSetup setup;
  setup.num_blocks = 10;
  const auto driver = MakeDriver(setup, "stall_free", "watermark: 0.3");
  ASSERT_TRUE(driver->Submit(Spec(0, 4 * 16, 2)));
  ASSERT_TRUE(driver->Submit(Spec(1, 4 * 16, 1)));
  ASSERT_TRUE(driver->Submit(Spec(2, 9 * 16, 1)));
  const std::vector<Iteration> run = RunOf(*driver);
  ASSERT_EQ(run.size(), 4);
  // 4 blocks beside 4 would leave 2, and 3 have to be left; 9 fit alone only.
  EXPECT_THAT(run[0].chunks, ElementsAre(Chunk{0, 64}));
  EXPECT_THAT(run[1].decodes, ElementsAre(0));
  EXPECT_THAT(run[2].chunks, ElementsAre(Chunk{1, 64}));
  EXPECT_THAT(run[3].chunks, ElementsAre(Chunk{2, 144}));
}

TEST(SplitFuseScenario, DecodeWithoutABlockWaits) {
  EngineSetup setup;
  setup.block_size = 4;
  setup.num_blocks = 3;
  const auto driver = MakeDriver(setup, "split_fuse");
  ASSERT_TRUE(driver->Submit(Spec(0, 4, 6)));
  ASSERT_TRUE(driver->Submit(Spec(1, 4, 6)));
  StepOf(*driver);
  // Both want the third block.
  for (int i = 0; i < 4; ++i)
    EXPECT_THAT(StepOf(*driver).decodes, ElementsAre(0));
  // 0 wants another one: nobody can run, and the last admitted gives way.
  const Iteration sixth = StepOf(*driver);
  EXPECT_THAT(sixth.preempted, ElementsAre(1));
  EXPECT_THAT(sixth.finished, ElementsAre(0));
  EXPECT_THAT(StepOf(*driver).chunks, ElementsAre(Chunk{1, 5}));
}

// ---- A long prompt beside a decode ----

class LongPromptScenario : public testing::Test {
 protected:
  static constexpr int32_t kPrompt = 200'019;
  static constexpr int32_t kChunk = 3456;
  // ceil(kPrompt / kChunk)
  static constexpr int64_t kNumChunks = 58;

  std::vector<Iteration> Run(absl::string_view policy,
                             absl::string_view options) {
    EngineSetup setup;
    setup.limits.max_num_batched_tokens = kChunk;
    setup.limits.max_model_len = 1 << 20;
    setup.num_blocks = 20'000;
    const auto driver = MakeDriver(setup, policy, options);
    EXPECT_TRUE(driver->Submit(Spec(0, 16, 200)));
    StepOf(*driver);
    EXPECT_TRUE(driver->Submit(Spec(1, kPrompt, 1)));
    return RunOf(*driver);
  }
};

TEST_F(LongPromptScenario, PrefillFirstStallsTheDecodeForAllChunks) {
  EXPECT_EQ(LongestStall(Run("prefill_first", "chunk_tokens: 3456"), 0),
            kNumChunks);
  EXPECT_EQ(LongestStall(Run("interleave", "prefill_iterations: 0"), 0),
            kNumChunks);
}

TEST_F(LongPromptScenario, InterleavingBoundsTheStall) {
  EXPECT_EQ(LongestStall(Run("interleave", ""), 0), 1);
  const std::vector<Iteration> run =
      Run("interleave", "prefill_iterations: 5 decode_iterations: 2");
  EXPECT_EQ(LongestStall(run, 0), 5);
  // 58 chunks in turns of 5, between which the decode has 11 turns of 2.
  int64_t before_the_end_of_the_prompt = 0;
  for (const Iteration& iteration : run) {
    ++before_the_end_of_the_prompt;
    if (!iteration.finished.empty()) break;
  }
  EXPECT_EQ(before_the_end_of_the_prompt, 58 + 11 * 2);
}

TEST_F(LongPromptScenario, NobodyStallsBesideChunks) {
  EXPECT_EQ(LongestStall(Run("stall_free", ""), 0), 0);
  EXPECT_EQ(LongestStall(Run("unified_budget", ""), 0), 0);
  EXPECT_EQ(LongestStall(Run("split_fuse", ""), 0), 0);
  EXPECT_EQ(LongestStall(Run("hf_fifo", ""), 0), 0);
}

TEST_F(LongPromptScenario, PromptsUnderWayFirstStallOnceAdmitted) {
  // The first chunk is admitted beside the decode, the last one is short.
  EXPECT_EQ(LongestStall(Run("hf_prefill_first", ""), 0), kNumChunks - 2);
}

TEST_F(LongPromptScenario, WholePromptIsOneIteration) {
  const std::vector<Iteration> run = Run("orca", "");
  EXPECT_EQ(LongestStall(run, 0), 0);
  EXPECT_THAT(run[0].chunks, ElementsAre(Chunk{1, kPrompt}));
  EXPECT_THAT(run[0].decodes, ElementsAre(0));
}

// ---- Capacity (TensorRT-LLM): two requests of 10 + 80 tokens ----

class TwoRequests : public testing::TestWithParam<std::string> {
 protected:
  static std::vector<Iteration> Run(absl::string_view policy,
                                    int64_t kv_tokens) {
    EngineSetup setup;
    setup.block_size = 10;
    setup.num_blocks = kv_tokens / 10;
    setup.limits.max_num_seqs = 2;
    const auto driver = MakeDriver(setup, policy);
    EXPECT_TRUE(driver->Submit(Spec(0, 10, 80)));
    EXPECT_TRUE(driver->Submit(Spec(1, 10, 80)));
    return RunOf(*driver);
  }
};

TEST_P(TwoRequests, RunTogetherWhereBothFit) {
  const std::vector<Iteration> run = Run(GetParam(), 200);
  EXPECT_EQ(run.size(), 80);
  ExpectRunsThroughout(run, 0, 0, 80);
  ExpectRunsThroughout(run, 1, 0, 80);
}

INSTANTIATE_TEST_SUITE_P(Policies, TwoRequests,
                         testing::Values("max_utilization", "no_evict", "orca",
                                         "static_batching"));

using CapacityScenario = TwoRequests;

TEST_F(CapacityScenario, MaxUtilizationPausesTheLaterOne) {
  const std::vector<Iteration> run = Run("max_utilization", 100);
  ASSERT_EQ(run.size(), 119);
  ExpectRunsThroughout(run, 0, 0, 80);
  ExpectRunsThroughout(run, 1, 0, 41);
  EXPECT_THAT(run[41].preempted, ElementsAre(1));
  for (size_t i = 41; i < 80; ++i) EXPECT_FALSE(Runs(run[i], 1)) << i;
  // It comes back with what it has generated.
  EXPECT_THAT(run[80].chunks, ElementsAre(Chunk{1, 51}));
  ExpectRunsThroughout(run, 1, 80, 119);
  EXPECT_EQ(NumPreemptions(run), 1);
}

TEST_F(CapacityScenario, NoEvictRunsOneAfterTheOther) {
  for (const absl::string_view policy : {"no_evict", "orca"}) {
    const std::vector<Iteration> run = Run(policy, 100);
    ASSERT_EQ(run.size(), 160);
    ExpectRunsThroughout(run, 0, 0, 80);
    ExpectRunsThroughout(run, 1, 80, 160);
    EXPECT_EQ(NumPreemptions(run), 0);
  }
}

TEST(MaxUtilizationScenario, ChunkedContextKeepsTheCacheToItself) {
  EngineSetup setup;
  setup.block_size = 10;
  setup.num_blocks = 10;
  setup.limits.max_num_seqs = 2;
  const auto driver =
      MakeDriver(setup, "max_utilization", "max_context_tokens: 40");
  ASSERT_TRUE(driver->Submit(Spec(0, 70, 20)));
  ASSERT_TRUE(driver->Submit(Spec(1, 70, 20)));
  const std::vector<Iteration> run = RunOf(*driver);
  ASSERT_EQ(run.size(), 42);
  EXPECT_THAT(run[0].chunks, ElementsAre(Chunk{0, 40}));
  EXPECT_THAT(run[1].chunks, ElementsAre(Chunk{0, 30}));
  EXPECT_THAT(run[20].finished, ElementsAre(0));
  EXPECT_THAT(run[21].chunks, ElementsAre(Chunk{1, 40}));
  EXPECT_THAT(run[41].finished, ElementsAre(1));
}

TEST(NoEvictScenario, UrgentFirstAndStableWithinAPriority) {
  EngineSetup setup;
  setup.limits.max_num_seqs = 1;
  const auto driver = MakeDriver(setup, "no_evict", "order: PRIORITY");
  const std::vector<int32_t> priorities = {2, 2, 1, 1, 1, 0, 3, 3, 3, 1, 0, 2};
  for (size_t i = 0; i < priorities.size(); ++i) {
    ASSERT_TRUE(
        driver->Submit(Spec(static_cast<int64_t>(i), 10, 2, priorities[i])));
  }
  EXPECT_THAT(OrderOfFirstChunks(RunOf(*driver)),
              ElementsAre(5, 10, 2, 3, 4, 9, 0, 1, 11, 6, 7, 8));
}

// ---- Micro-batches (TensorRT-LLM) ----

class MicroBatchScenario : public testing::TestWithParam<std::string> {};

TEST_P(MicroBatchScenario, PairsFollowEachOther) {
  EngineSetup setup;
  setup.limits.max_num_seqs = 2;
  const auto driver = MakeDriver(setup, GetParam());
  for (int64_t id = 0; id < 4; ++id) {
    ASSERT_TRUE(driver->Submit(Spec(id, 10, 80)));
  }
  const std::vector<Iteration> run = RunOf(*driver);
  ASSERT_EQ(run.size(), 160);
  ExpectRunsThroughout(run, 0, 0, 80);
  ExpectRunsThroughout(run, 1, 0, 80);
  ExpectRunsThroughout(run, 2, 80, 160);
  ExpectRunsThroughout(run, 3, 80, 160);
}

TEST_P(MicroBatchScenario, EqualProgressWithinATokenBudget) {
  EngineSetup setup;
  setup.limits.max_num_seqs = 2;
  setup.limits.max_num_batched_tokens = 7;
  const auto driver =
      MakeDriver(setup, GetParam(), "chunking: EQUAL_PROGRESS chunk_unit: 5");
  ASSERT_TRUE(driver->Submit(Spec(0, 12, 5)));
  ASSERT_TRUE(driver->Submit(Spec(1, 12, 5)));
  const std::vector<Iteration> run = RunOf(*driver);
  ASSERT_EQ(run.size(), 9);
  EXPECT_THAT(run[0].chunks, ElementsAre(Chunk{0, 5}));
  // The last chunk may exceed the unit.
  EXPECT_THAT(run[1].chunks, ElementsAre(Chunk{0, 7}));
  EXPECT_THAT(run[2].chunks, ElementsAre(Chunk{1, 5}));
  // 7 tokens are left of the prompt, and 6 of the budget.
  EXPECT_THAT(run[3].chunks, ElementsAre(Chunk{1, 5}));
  EXPECT_THAT(run[4].chunks, ElementsAre(Chunk{1, 2}));
  ExpectRunsThroughout(run, 0, 0, 6);
  EXPECT_THAT(run[5].decodes, ElementsAre(0, 1));
  EXPECT_THAT(run[5].finished, ElementsAre(0));
  EXPECT_THAT(run[8].finished, ElementsAre(1));
}

TEST_P(MicroBatchScenario, ContextLimitCutsToUnits) {
  for (const std::string chunking :
       {"chunking: EQUAL_PROGRESS", "chunking: FIRST_COME_FIRST_SERVED"}) {
    EngineSetup setup;
    setup.limits.max_num_seqs = 2;
    const auto driver = MakeDriver(
        setup, GetParam(), chunking + " chunk_unit: 5 max_context_tokens: 12");
    int64_t id = 0;
    for (const int32_t prompt : {10, 10, 10, 17}) {
      ASSERT_TRUE(driver->Submit(Spec(id++, prompt, 5)));
    }
    const std::vector<Iteration> run = RunOf(*driver);
    ASSERT_GE(run.size(), 7);
    EXPECT_THAT(run[0].chunks, ElementsAre(Chunk{0, 10}, Chunk{1, 10}));
    EXPECT_THAT(run[5].chunks, ElementsAre(Chunk{2, 10}, Chunk{3, 10}));
    EXPECT_THAT(run[6].chunks, ElementsAre(Chunk{3, 7}));
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, MicroBatchScenario,
                         testing::Values("max_utilization", "no_evict"));

TEST(EqualProgressScenario, ShortPromptNeedNotWaitForALongOne) {
  EngineSetup setup;
  setup.limits.max_num_batched_tokens = 64;
  const auto driver = MakeDriver(setup, "equal_progress");
  ASSERT_TRUE(driver->Submit(Spec(0, 200, 2)));
  ASSERT_TRUE(driver->Submit(Spec(1, 20, 2)));
  const Iteration first = StepOf(*driver);
  // Units of 16: 16 + 16, then 16 + 4, and 12 are too few for another.
  EXPECT_THAT(first.chunks, ElementsAre(Chunk{0, 32}, Chunk{1, 20}));
}

// ---- transformers ----

class HfScenario : public testing::TestWithParam<std::string> {};

TEST_P(HfScenario, PromptWithoutBlocksWaitsAndIsNotLost) {
  EngineSetup setup;
  setup.block_size = 4;
  setup.num_blocks = 10;
  setup.limits.max_num_batched_tokens = 64;
  const auto driver = MakeDriver(setup, GetParam());
  ASSERT_TRUE(driver->Submit(Spec(0, 16, 6)));
  StepOf(*driver);
  ASSERT_TRUE(driver->Submit(Spec(1, 30, 3)));
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(StepOf(*driver).chunks, IsEmpty());
    EXPECT_THAT(Waiting(*driver), ElementsAre(1));
  }
  EXPECT_THAT(StepOf(*driver).chunks, ElementsAre(Chunk{1, 30}));
}

TEST_P(HfScenario, ChunksOfAPromptSumUpToIt) {
  EngineSetup setup;
  setup.block_size = 4;
  setup.num_blocks = 10;
  setup.limits.max_num_batched_tokens = 33;
  const auto driver = MakeDriver(setup, GetParam());
  ASSERT_TRUE(driver->Submit(Spec(0, 24, 4)));
  ASSERT_TRUE(driver->Submit(Spec(1, 36, 2)));
  EXPECT_THAT(StepOf(*driver).chunks, ElementsAre(Chunk{0, 24}, Chunk{1, 9}));
  for (int i = 0; i < 3; ++i) EXPECT_THAT(StepOf(*driver).chunks, IsEmpty());
  EXPECT_THAT(StepOf(*driver).chunks, ElementsAre(Chunk{1, 27}));
}

INSTANTIATE_TEST_SUITE_P(Policies, HfScenario,
                         testing::Values("hf_fifo", "hf_prefill_first"));

// ---- Static batching ----

TEST(StaticBatchingScenario, NextBatchWaitsForTheSlowest) {
  const auto driver =
      MakeDriver(EngineSetup(), "static_batching", "batch_size: 2");
  ASSERT_TRUE(driver->Submit(Spec(0, 10, 3)));
  ASSERT_TRUE(driver->Submit(Spec(1, 10, 9)));
  ASSERT_TRUE(driver->Submit(Spec(2, 10, 1)));
  const std::vector<Iteration> run = RunOf(*driver);
  ASSERT_EQ(run.size(), 10);
  EXPECT_THAT(run[0].chunks, ElementsAre(Chunk{0, 10}, Chunk{1, 10}));
  EXPECT_THAT(run[2].finished, ElementsAre(0));
  EXPECT_THAT(run[8].finished, ElementsAre(1));
  EXPECT_THAT(run[9].chunks, ElementsAre(Chunk{2, 10}));
}

TEST(OrcaScenario, MaxModelLenReservedBoundsTheBatch) {
  EngineSetup setup;
  setup.num_blocks = 20;
  setup.limits.max_model_len = 160;
  const auto driver = MakeDriver(setup, "orca", "reserve_max_model_len: true");
  for (int64_t id = 0; id < 3; ++id) {
    ASSERT_TRUE(driver->Submit(Spec(id, 10, 3)));
  }
  EXPECT_THAT(StepOf(*driver).chunks, ElementsAre(Chunk{0, 10}, Chunk{1, 10}));
}

// ---- All ----

// What an iteration costs must not depend on how many decode.
TEST(EveryPolicy, PlansDecodesAsOneEntryThatMayBeRepeated) {
  for (const PolicyInfo& info : RegisteredPolicies()) {
    SCOPED_TRACE(info.name);
    const auto driver = MakeDriver(EngineSetup(), info.name);
    for (int64_t id = 0; id < 20; ++id) {
      ASSERT_TRUE(driver->Submit(Spec(id, 20, 50)));
    }
    for (int i = 0; i < 5; ++i) StepOf(*driver);
    IterationPlan plan;
    driver->policy().Plan(
        EngineView(driver->state(), driver->now(), /*predictor=*/nullptr),
        plan);
    EXPECT_TRUE(plan.decode_all());
    EXPECT_THAT(plan.pieces(), IsEmpty());
    EXPECT_NE(plan.repeat(), Repeat::kNo);
  }
}

TEST(EveryPolicy, ShipsUnderItsName) {
  std::vector<std::string> names;
  for (const PolicyInfo& info : RegisteredPolicies()) {
    names.push_back(info.name);
    EXPECT_FALSE(info.description.empty()) << info.name;
  }
  EXPECT_THAT(names,
              ElementsAre("equal_progress", "hf_fifo", "hf_prefill_first",
                          "interleave", "max_utilization", "no_evict", "orca",
                          "prefill_first", "split_fuse", "stall_free",
                          "static_batching", "unified_budget"));
}

}  // namespace
}  // namespace interleave::scheduler
