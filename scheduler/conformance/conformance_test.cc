// What every policy must do, whatever it decides.  Linked with a policy (see
// scheduling_policy of scheduler/defs.bzl), it tests all that are registered,
// each with its default options and with every option text on the command line.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/ceil_div.h"
#include "base/random.h"
#include "base/sim_time.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/conformance/engine_driver.h"
#include "scheduler/engine_state.h"
#include "scheduler/engine_view.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/policy.h"
#include "scheduler/registry.h"
#include "scheduler/request_spec.h"

namespace interleave::scheduler {
namespace {

using ::testing::HasSubstr;

constexpr int kNumWorkloads = 48;

std::vector<std::string>& OptionTexts() {
  static auto* const texts = new std::vector<std::string>{""};
  return *texts;
}

struct Case {
  std::string policy;
  std::string options;

  friend void PrintTo(const Case& c, std::ostream* out) {
    *out << c.policy << " {" << c.options << "}";
  }
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const PolicyInfo& info : RegisteredPolicies()) {
    for (const std::string& options : OptionTexts()) {
      cases.push_back({info.name, options});
    }
  }
  return cases;
}

// Requests with the iteration before which they arrive.
struct Arrival {
  int64_t iteration = 0;
  RequestSpec spec;
};

struct Workload {
  EngineDriver::Setup setup;
  std::vector<Arrival> arrivals;
  int64_t num_tokens = 0;
};

int64_t Pick(Rng& rng, const std::vector<int64_t>& values) {
  return values[static_cast<size_t>(
      rng.UniformInt(0, static_cast<int64_t>(values.size()) - 1))];
}

RequestSpec MakeSpec(Rng& rng, int64_t id, const EngineDriver::Setup& setup) {
  RequestSpec spec;
  spec.id = id;
  // Prompts and outputs are mostly short and now and then long.
  const int64_t longest = rng.Bernoulli(0.2) ? 300 : 40;
  spec.prompt_tokens = static_cast<int32_t>(rng.UniformInt(1, longest));
  spec.output_tokens =
      static_cast<int32_t>(rng.UniformInt(1, rng.Bernoulli(0.2) ? 100 : 20));
  spec.max_output_tokens =
      spec.output_tokens +
      static_cast<int32_t>(rng.Bernoulli(0.5) ? rng.UniformInt(0, 30) : 0);
  spec.priority = static_cast<int32_t>(rng.UniformInt(0, 3));
  spec.tenant = static_cast<int32_t>(rng.UniformInt(0, 2));
  if (setup.prefix_caching && rng.Bernoulli(0.7)) {
    const int64_t named = rng.UniformInt(1, spec.prompt_tokens);
    spec.segments.push_back(
        {rng.UniformInt(1, 3), static_cast<int32_t>(named)});
  }
  return spec;
}

// Blocks that the largest request takes.
int64_t LargestNeed(const Workload& workload) {
  int64_t tokens = 1;
  for (const Arrival& arrival : workload.arrivals) {
    tokens = std::max<int64_t>(tokens, arrival.spec.prompt_tokens +
                                           arrival.spec.max_output_tokens - 1);
  }
  return CeilDiv(tokens, workload.setup.block_size);
}

Workload MakeWorkload(int seed) {
  Rng rng(static_cast<uint64_t>(seed));
  Workload workload;
  EngineDriver::Setup& setup = workload.setup;
  setup.block_size = Pick(rng, {1, 4, 16});
  setup.prefix_caching = rng.Bernoulli(0.4);
  setup.num_host_blocks = Pick(rng, {0, 30});
  setup.limits.max_num_seqs = static_cast<int32_t>(Pick(rng, {1, 3, 8, 64}));
  setup.limits.max_num_batched_tokens =
      static_cast<int32_t>(Pick(rng, {5, 32, 128, 2048}));
  setup.limits.max_model_len = static_cast<int32_t>(Pick(rng, {500, 4096}));
  const int64_t num_requests = rng.UniformInt(1, 40);
  // Bursts and quiet times.
  int64_t iteration = 0;
  for (int64_t id = 0; id < num_requests; ++id) {
    iteration += rng.Bernoulli(0.6) ? 0 : rng.UniformInt(1, 60);
    workload.arrivals.push_back({iteration, MakeSpec(rng, id, setup)});
    workload.num_tokens += workload.arrivals.back().spec.prompt_tokens +
                           workload.arrivals.back().spec.output_tokens;
  }
  // From a cache that the largest request fills to one that is hardly ever
  // full.
  const int64_t largest = LargestNeed(workload);
  const int64_t ample = std::min<int64_t>(num_requests, 8) * largest;
  setup.num_blocks = Pick(rng, {largest, largest + 1, 2 * largest, ample});
  return workload;
}

struct Outcome {
  absl::Status status;
  std::vector<EngineDriver::Iteration> iterations;
  int64_t ended = 0;
  int64_t free_blocks = 0;
};

// A run that can be stepped.
class Runner {
 public:
  Runner(const Case& c, const Workload& workload, bool trust_repeat)
      : workload_(workload) {
    EngineDriver::Setup setup = workload.setup;
    setup.trust_repeat = trust_repeat;
    auto driver = EngineDriver::Create(setup, c.policy, c.options);
    run_.status = driver.status();
    if (driver.ok()) driver_ = *std::move(driver);
    // Nobody needs as many iterations as this, unless the policy goes round in
    // circles.
    max_iterations_ = 1000 + 50 * workload.num_tokens;
  }

  // False at the end.
  bool Step() {
    if (!run_.status.ok()) return false;
    SubmitArrivals();
    const bool idle = driver_->state().num_requests() == 0;
    if (idle && next_ == workload_.arrivals.size()) {
      run_.free_blocks = driver_->state().cache().free_blocks();
      return false;
    }
    absl::StatusOr<EngineDriver::Iteration> iteration = driver_->Step();
    if (!iteration.ok()) {
      run_.status = iteration.status();
      return false;
    }
    run_.ended += static_cast<int64_t>(iteration->finished.size() +
                                       iteration->rejected.size());
    CheckProgress(*iteration, idle);
    run_.iterations.push_back(*std::move(iteration));
    ++iteration_;
    return run_.status.ok();
  }

  Outcome Finish() {
    while (Step()) {
    }
    return std::move(run_);
  }

 private:
  void SubmitArrivals() {
    while (next_ < workload_.arrivals.size() &&
           workload_.arrivals[next_].iteration <= iteration_) {
      if (!driver_->Submit(workload_.arrivals[next_].spec)) ++run_.ended;
      ++next_;
    }
  }

  void CheckProgress(const EngineDriver::Iteration& iteration, bool idle) {
    if (iteration_ > max_iterations_) {
      run_.status = absl::DeadlineExceededError(
          absl::StrCat("not finished after ", iteration_, " iterations"));
    } else if (!idle && iteration.num_tokens() == 0 &&
               iteration.rejected.empty() &&
               next_ == workload_.arrivals.size()) {
      run_.status = absl::FailedPreconditionError(
          "requests are left, and the policy runs nothing");
    }
  }

  const Workload& workload_;
  std::unique_ptr<EngineDriver> driver_;
  Outcome run_;
  size_t next_ = 0;
  int64_t iteration_ = 0;
  int64_t max_iterations_ = 0;
};

Outcome RunWorkload(const Case& c, const Workload& workload,
                    bool trust_repeat = false) {
  return Runner(c, workload, trust_repeat).Finish();
}

class PolicyConformanceTest : public testing::TestWithParam<Case> {};

// Every request is computed whole, once, and again after each preemption.
void ExpectEveryTokenComputed(const Workload& workload,
                              const Outcome& outcome) {
  std::vector<int64_t> tokens(workload.arrivals.size());
  std::vector<bool> preempted(workload.arrivals.size());
  std::vector<bool> finished(workload.arrivals.size());
  for (const EngineDriver::Iteration& iteration : outcome.iterations) {
    for (const EngineDriver::Chunk& chunk : iteration.chunks) {
      tokens[static_cast<size_t>(chunk.id)] += chunk.tokens;
    }
    for (const int64_t id : iteration.decodes) {
      ++tokens[static_cast<size_t>(id)];
    }
    for (const int64_t id : iteration.preempted) {
      preempted[static_cast<size_t>(id)] = true;
    }
    for (const int64_t id : iteration.finished) {
      finished[static_cast<size_t>(id)] = true;
    }
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!finished[i]) continue;
    const RequestSpec& spec = workload.arrivals[i].spec;
    const int64_t least = spec.prompt_tokens + spec.output_tokens - 1;
    EXPECT_GE(tokens[i], least) << "request " << i;
    if (!preempted[i]) {
      EXPECT_EQ(tokens[i], least) << "request " << i;
    }
  }
}

// Plans are legal, everything ends whatever the cache holds, and no block is
// lost.
TEST_P(PolicyConformanceTest, ServesEveryWorkload) {
  for (int seed = 0; seed < kNumWorkloads; ++seed) {
    SCOPED_TRACE(testing::Message() << "workload " << seed);
    Workload workload = MakeWorkload(seed);
    workload.setup.check_invariants = true;
    const Outcome outcome = RunWorkload(GetParam(), workload);
    ASSERT_OK(outcome.status);
    EXPECT_EQ(outcome.ended, static_cast<int64_t>(workload.arrivals.size()));
    EXPECT_EQ(outcome.free_blocks, workload.setup.num_blocks);
    if (!workload.setup.prefix_caching) {
      ExpectEveryTokenComputed(workload, outcome);
    }
  }
}

TEST_P(PolicyConformanceTest, IsDeterministic) {
  for (int seed = 0; seed < kNumWorkloads; seed += 5) {
    const Workload workload = MakeWorkload(seed);
    EXPECT_EQ(RunWorkload(GetParam(), workload).iterations,
              RunWorkload(GetParam(), workload).iterations)
        << "workload " << seed;
  }
}

TEST_P(PolicyConformanceTest, InstancesDoNotDisturbEachOther) {
  for (int seed = 0; seed + 1 < kNumWorkloads; seed += 6) {
    const Workload workload_a = MakeWorkload(seed);
    const Workload workload_b = MakeWorkload(seed + 1);
    Runner a(GetParam(), workload_a, /*trust_repeat=*/false);
    Runner b(GetParam(), workload_b, /*trust_repeat=*/false);
    while (a.Step() | b.Step()) {
    }
    EXPECT_EQ(a.Finish().iterations,
              RunWorkload(GetParam(), workload_a).iterations)
        << "workload " << seed;
    EXPECT_EQ(b.Finish().iterations,
              RunWorkload(GetParam(), workload_b).iterations)
        << "workload " << seed + 1;
  }
}

// A policy that lets the engine repeat a plan gets the run that it would have
// got by being asked every time.
TEST_P(PolicyConformanceTest, KeepsItsPromiseToRepeat) {
  for (int seed = 0; seed < kNumWorkloads; ++seed) {
    const Workload workload = MakeWorkload(seed);
    const Outcome asked =
        RunWorkload(GetParam(), workload, /*trust_repeat=*/false);
    const Outcome trusted =
        RunWorkload(GetParam(), workload, /*trust_repeat=*/true);
    ASSERT_OK(trusted.status) << "workload " << seed;
    EXPECT_EQ(asked.iterations, trusted.iterations) << "workload " << seed;
  }
}

TEST_P(PolicyConformanceTest, PlansNothingWhenThereIsNothing) {
  ASSERT_OK_AND_ASSIGN(
      auto driver, EngineDriver::Create(EngineDriver::Setup(),
                                        GetParam().policy, GetParam().options));
  IterationPlan plan;
  driver->policy().Plan(
      EngineView(driver->state(), SimTime::Zero(), /*predictor=*/nullptr),
      plan);
  EXPECT_TRUE(plan.pieces().empty());
  EXPECT_TRUE(plan.preemptions().empty());
  EXPECT_TRUE(plan.rejections().empty());
  ASSERT_OK_AND_ASSIGN(const EngineDriver::Iteration iteration, driver->Step());
  EXPECT_EQ(iteration, EngineDriver::Iteration());
}

TEST_P(PolicyConformanceTest, RefusesUnknownOptionsByName) {
  EXPECT_THAT(CreatePolicy(GetParam().policy, "no_such_option: 1"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("no_such_option")));
}

INSTANTIATE_TEST_SUITE_P(Registered, PolicyConformanceTest,
                         testing::ValuesIn(Cases()));

TEST(ConformanceTest, APolicyIsLinkedIn) {
  EXPECT_FALSE(RegisteredPolicies().empty());
}

}  // namespace

void AddOptionText(std::string text) {
  OptionTexts().push_back(std::move(text));
}

}  // namespace interleave::scheduler

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] != '-') interleave::scheduler::AddOptionText(argv[i]);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
