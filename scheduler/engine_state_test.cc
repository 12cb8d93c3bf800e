#include "scheduler/engine_state.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/request.h"

namespace interleave::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

RequestSpec Spec(int64_t id, int32_t prompt, int32_t output) {
  RequestSpec spec;
  spec.id = id;
  spec.prompt_tokens = prompt;
  spec.output_tokens = output;
  spec.max_output_tokens = output;
  return spec;
}

EngineState::Options SmallOptions() {
  EngineState::Options options;
  options.limits.max_num_seqs = 4;
  options.cache.num_blocks = 20;
  options.cache.block_size = 4;
  return options;
}

std::unique_ptr<EngineState> Make(const EngineState::Options& options) {
  auto state = EngineState::Create(options);
  EXPECT_OK(state);
  return *std::move(state);
}

// Validates, commits and applies a plan; removes what has ended.
std::vector<int64_t> Step(EngineState& state, const IterationPlan& plan) {
  EXPECT_OK(state.Validate(plan, 1 << 20));
  CommittedBatch batch;
  state.Commit(plan, batch);
  std::vector<int64_t> done;
  const auto end = [&](Request& request) {
    done.push_back(request.id());
    state.Remove(request);
  };
  if (batch.decode_all && state.num_steady() > 0) {
    state.AdvanceSteady();
  }
  for (const CommittedPiece& piece : batch.pieces) {
    if (state.AdvancePiece(piece)) end(*piece.request);
  }
  while (Request* finished = state.NextFinished()) end(*finished);
  EXPECT_OK(state.CheckInvariants());
  return done;
}

std::vector<int64_t> Ids(const RequestQueue& queue) {
  std::vector<int64_t> ids;
  for (const Request& request : queue) ids.push_back(request.id());
  return ids;
}

TEST(EngineStateTest, RefusesLimitsThatMakeNoSense) {
  EngineState::Options options = SmallOptions();
  options.limits.max_num_seqs = 0;
  EXPECT_THAT(
      EngineState::Create(options),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("max_num_seqs")));
  options = SmallOptions();
  options.limits.max_num_batched_tokens = 0;
  EXPECT_THAT(EngineState::Create(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("max_num_batched_tokens")));
}

TEST(EngineStateTest, WaitingIsInOrderOfKeyThenId) {
  auto state = Make(SmallOptions());
  state->Add(Spec(0, 4, 2), 2);
  state->Add(Spec(1, 4, 2), 0);
  state->Add(Spec(2, 4, 2), 1);
  state->Add(Spec(3, 4, 2), 0);
  EXPECT_THAT(Ids(state->waiting()), ElementsAre(1, 3, 2, 0));
}

TEST(EngineStateTest, WalksThroughTheLifeOfARequest) {
  auto state = Make(SmallOptions());
  Request& request = state->Add(Spec(0, 6, 3), 0);
  EXPECT_EQ(state->AdmissionNeed(request, 4, Reservation::kChunk), 1);
  EXPECT_EQ(state->AdmissionNeed(request, 4, Reservation::kPrompt), 2);
  EXPECT_EQ(state->AdmissionNeed(request, 4, Reservation::kCompletion), 2);

  IterationPlan plan;
  plan.Run(request, 4);
  EXPECT_THAT(Step(*state, plan), ElementsAre());
  EXPECT_EQ(request.phase(), Phase::kPrefill);
  EXPECT_EQ(request.computed(), 4);
  EXPECT_EQ(request.remaining(), 2);
  EXPECT_EQ(state->GrowthNeed(request, 2), 1);

  plan.Clear();
  plan.Run(request, 2);
  Step(*state, plan);
  EXPECT_EQ(request.phase(), Phase::kDecode);
  EXPECT_TRUE(request.steady());
  EXPECT_EQ(request.produced(), 1);
  EXPECT_EQ(state->steady_kv_tokens(), 6);
  EXPECT_EQ(state->steady_kv_tokens_squared(), 36);

  plan.Clear();
  plan.DecodeAll();
  EXPECT_EQ(state->DecodeAllNeed(), 0);
  Step(*state, plan);
  EXPECT_EQ(request.produced(), 2);
  EXPECT_EQ(state->steady_kv_tokens(), 7);
  EXPECT_EQ(state->steady_kv_tokens_squared(), 49);
  EXPECT_THAT(Step(*state, plan), ElementsAre(0));
  EXPECT_EQ(state->num_requests(), 0);
  EXPECT_EQ(state->cache().free_blocks(), 20);
}

TEST(EngineStateTest, APreemptedRequestTakesItsOldPlace) {
  auto state = Make(SmallOptions());
  Request& first = state->Add(Spec(0, 4, 9), 0);
  state->Add(Spec(1, 4, 9), 0);
  IterationPlan plan;
  plan.Run(first, 4);
  Step(*state, plan);
  plan.Clear();
  plan.DecodeAll();
  Step(*state, plan);
  plan.Clear();
  plan.Preempt(first);
  EXPECT_OK(state->Validate(plan, 100));
  CommittedBatch batch;
  state->Commit(plan, batch);
  EXPECT_THAT(Ids(state->waiting()), ElementsAre(0, 1));
  EXPECT_EQ(first.computed(), 0);
  EXPECT_EQ(first.produced(), 2);
  EXPECT_EQ(first.remaining(), 6);
  EXPECT_EQ(first.preemptions(), 1);
  EXPECT_OK(state->CheckInvariants());
}

TEST(EngineStateTest, ReservationsAreNeverShort) {
  EngineState::Options options = SmallOptions();
  options.cache.num_blocks = 5;
  auto state = Make(options);
  Request& reserved = state->Add(Spec(0, 4, 9), 0);
  Request& other = state->Add(Spec(1, 4, 9), 0);
  // 4 + 9 - 1 tokens.
  EXPECT_EQ(state->AdmissionNeed(reserved, 4, Reservation::kCompletion), 3);
  IterationPlan plan;
  plan.Run(reserved, 4, Reservation::kCompletion);
  plan.Run(other, 4, Reservation::kCompletion);
  EXPECT_THAT(state->Validate(plan, 100),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("1 more cache blocks")));
  plan.Clear();
  plan.Run(reserved, 4, Reservation::kCompletion);
  Step(*state, plan);
  plan.Clear();
  plan.DecodeAll();
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(state->DecodeAllNeed(), 0);
    EXPECT_THAT(Step(*state, plan), ElementsAre());
    EXPECT_EQ(state->cache().free_blocks(), 2);
  }
  EXPECT_THAT(Step(*state, plan), ElementsAre(0));
}

TEST(EngineStateTest, SwappedRequestsComeBackWhereTheyWere) {
  EngineState::Options options = SmallOptions();
  options.cache.num_host_blocks = 20;
  auto state = Make(options);
  Request& request = state->Add(Spec(0, 6, 5), 0);
  IterationPlan plan;
  plan.Run(request, 6);
  Step(*state, plan);
  plan.Clear();
  plan.Preempt(request, PreemptMode::kSwap);
  Step(*state, plan);
  EXPECT_EQ(request.phase(), Phase::kSwapped);
  EXPECT_EQ(state->cache().free_blocks(), 20);
  EXPECT_EQ(state->SwapInNeed(request), 2);
  plan.Clear();
  plan.SwapIn(request);
  plan.DecodeAll();
  Step(*state, plan);
  EXPECT_EQ(request.phase(), Phase::kDecode);
  EXPECT_EQ(request.produced(), 2);
  EXPECT_EQ(request.computed(), 7);
}

TEST(EngineStateTest, SaysWhyARequestCanNeverBeServed) {
  EngineState::Options options = SmallOptions();
  options.limits.max_model_len = 1000;
  auto state = Make(options);
  EXPECT_EQ(state->WhyNever(Spec(0, 70, 11)), std::nullopt);
  EXPECT_THAT(state->WhyNever(Spec(0, 71, 11)).value_or(""),
              HasSubstr("exceeds_kv_cache: it takes 21 blocks of 4"));
  EXPECT_THAT(state->WhyNever(Spec(0, 990, 11)).value_or(""),
              HasSubstr("exceeds_max_model_len"));
}

class IllegalPlanTest : public testing::Test {
 protected:
  IllegalPlanTest() : state_(Make(SmallOptions())) {
    waiting_ = &state_->Add(Spec(10, 8, 4), 0);
    prefilling_ = &state_->Add(Spec(11, 8, 4), 0);
    decoding_ = &state_->Add(Spec(12, 8, 4), 0);
    IterationPlan plan;
    plan.Run(*prefilling_, 3);
    plan.Run(*decoding_, 8);
    Step(*state_, plan);
  }

  void ExpectRefused(const IterationPlan& plan, const std::string& rule,
                     int64_t budget = 1000) {
    EXPECT_THAT(
        state_->Validate(plan, budget),
        StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(rule)));
  }

  std::unique_ptr<EngineState> state_;
  Request* waiting_;
  Request* prefilling_;
  Request* decoding_;
};

TEST_F(IllegalPlanTest, IsRefusedByItsRule) {
  IterationPlan plan;
  plan.Run(*waiting_, 4);
  plan.Run(*waiting_, 4);
  ExpectRefused(plan, "request 10 (waiting) is mentioned twice");

  plan.Clear();
  plan.Run(*prefilling_, 6);
  ExpectRefused(plan, "is given 6 tokens, it has 5 left");

  plan.Clear();
  plan.Run(*waiting_, 0);
  ExpectRefused(plan, "it must be at least 1");

  plan.Clear();
  plan.DecodeAll();
  plan.Run(*decoding_, 1);
  ExpectRefused(plan, "is run besides decode_all");

  plan.Clear();
  plan.Preempt(*waiting_);
  ExpectRefused(plan, "is preempted, but it is not running");

  plan.Clear();
  plan.Reject(*decoding_, "why not");
  ExpectRefused(plan, "is rejected, but it is not waiting");

  plan.Clear();
  plan.Preempt(*decoding_, PreemptMode::kSwap);
  ExpectRefused(plan, "the host tier has no room");

  plan.Clear();
  plan.DecodeAll();
  plan.Run(*waiting_, 8);
  ExpectRefused(plan, "it computes 9 tokens, the policy's budget is 8", 8);
  EXPECT_OK(state_->Validate(plan, 9));
}

// What a request should look like, kept one by one.
struct Model {
  int32_t produced = 0;
  int32_t computed = 0;
};

TEST(EngineStateTest, RandomPlansAgreeWithRequestsKeptOneByOne) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    std::mt19937_64 random(seed);
    EngineState::Options options;
    options.track_longest = true;
    options.limits.max_num_seqs = 8;
    options.cache.block_size = 1 + static_cast<int32_t>(random() % 6);
    options.cache.num_blocks = 600;
    options.cache.num_host_blocks = 600;
    options.cache.enable_prefix_caching = false;
    auto state = Make(options);
    std::map<int64_t, Model> models;
    int64_t next_id = 0;
    for (int step = 0; step < 400; ++step) {
      if (random() % 3 == 0) {
        const int64_t id = next_id++;
        state->Add(Spec(id, 1 + static_cast<int32_t>(random() % 30),
                        1 + static_cast<int32_t>(random() % 30)),
                   0);
        models[id] = {};
      }
      IterationPlan plan;
      int64_t free = state->cache().free_blocks();
      const bool decode_all = random() % 4 != 0;
      std::map<int64_t, int32_t> ran;
      std::vector<int64_t> recomputed;
      for (const Request& request : state->running()) {
        if (random() % 12 == 0) {
          const bool swap = random() % 2 == 0;
          plan.Preempt(request,
                       swap ? PreemptMode::kSwap : PreemptMode::kRecompute);
          if (!swap) recomputed.push_back(request.id());
        } else if (request.phase() == Phase::kDecode) {
          if (decode_all) {
            ran[request.id()] = 1;
            free -= state->DecodeNeedsBlock(request) ? 1 : 0;
          } else if (random() % 2 == 0) {
            plan.Run(request, 1);
            ran[request.id()] = 1;
            free -= state->GrowthNeed(request, 1);
          }
        } else if (random() % 2 == 0) {
          const int32_t tokens =
              1 + static_cast<int32_t>(
                      random() % static_cast<uint64_t>(request.remaining()));
          plan.Run(request, tokens);
          ran[request.id()] = tokens;
          free -= state->GrowthNeed(request, tokens);
        }
      }
      if (decode_all) plan.DecodeAll();
      ASSERT_GE(free, 0);
      int64_t seqs = 8 - state->running().size();
      for (const Request& request : state->swapped()) {
        if (seqs == 0 || random() % 2 == 0 ||
            state->SwapInNeed(request) + 1 > free) {
          continue;
        }
        --seqs;
        free -= state->SwapInNeed(request) + 1;
        plan.SwapIn(request);
        if (decode_all && request.swapped_from() == Phase::kDecode) {
          ran[request.id()] = 1;
        }
      }
      for (const Request& request : state->waiting()) {
        if (seqs == 0) break;
        const int32_t tokens =
            1 + static_cast<int32_t>(
                    random() % static_cast<uint64_t>(request.remaining()));
        const auto reservation = static_cast<Reservation>(random() % 3);
        const int64_t need = state->AdmissionNeed(request, tokens, reservation);
        if (need > free) break;
        --seqs;
        free -= need;
        plan.Run(request, tokens, reservation);
        ran[request.id()] = tokens;
      }
      for (int64_t id : recomputed) models[id].computed = 0;
      const std::vector<int64_t> done = Step(*state, plan);
      for (const auto& [id, tokens] : ran) {
        Model& model = models[id];
        model.computed += tokens;
      }
      int64_t sum = 0;
      int64_t longest = 0;
      const auto check = [&](const Request& request) {
        Model& model = models[request.id()];
        ASSERT_EQ(request.computed(), model.computed) << request.id();
        if (ran.count(request.id()) > 0 &&
            model.computed == request.spec().prompt_tokens + model.produced) {
          ++model.produced;
        }
        ASSERT_EQ(request.produced(), model.produced) << request.id();
        if (request.steady()) {
          sum += request.computed();
          longest = std::max<int64_t>(longest, request.computed());
        }
      };
      for (const Request& request : state->running()) check(request);
      for (const Request& request : state->waiting()) check(request);
      for (const Request& request : state->swapped()) check(request);
      ASSERT_EQ(state->steady_kv_tokens(), sum);
      ASSERT_EQ(state->longest_steady_kv_tokens(), longest);
      for (int64_t id : done) {
        ASSERT_EQ(ran.count(id), 1);
        models.erase(id);
      }
    }
  }
}

}  // namespace
}  // namespace interleave::scheduler
