#include "sim/jittered_executor.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "base/sim_time.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/engine_state.h"
#include "sim/cost/batch_shape.h"
#include "sim/executor.h"

namespace interleave::sim {
namespace {

// Ten milliseconds, of which the decodes alone would take four; fails when
// told.
class FixedExecutor final : public Executor {
 public:
  explicit FixedExecutor(absl::Status status) : status_(status) {}

  absl::Status Run(const Batch& batch, IterationTiming& timing) override {
    timing.device = timing.predicted = SimDuration::Millis(10);
    timing.host = SimDuration::Millis(1);
    timing.decodes_alone = SimDuration::Millis(4);
    return status_;
  }
  bool CanForesee() const override { return true; }
  SimDuration HostTime(int64_t) const override { return {}; }
  SimDuration Predict(const BatchShape&) override {
    return SimDuration::Millis(10);
  }

 private:
  const absl::Status status_;
};

class JitteredExecutorTest : public ::testing::Test {
 protected:
  std::unique_ptr<JitteredExecutor> Make(
      double deviation, uint64_t seed,
      const absl::Status& status = absl::OkStatus()) {
    return std::make_unique<JitteredExecutor>(
        std::make_unique<FixedExecutor>(status), deviation, seed);
  }
  Batch OneBatch() const { return {{}, {}, committed_, *state_}; }
  std::vector<IterationTiming> Run(Executor& executor, int times) {
    std::vector<IterationTiming> timings(static_cast<size_t>(times));
    for (IterationTiming& timing : timings) {
      EXPECT_OK(executor.Run(OneBatch(), timing));
    }
    return timings;
  }

  void SetUp() override {
    scheduler::EngineState::Options options;
    options.cache.num_blocks = 1;
    ASSERT_OK_AND_ASSIGN(state_, scheduler::EngineState::Create(options));
  }

  scheduler::CommittedBatch committed_;
  std::unique_ptr<scheduler::EngineState> state_;
};

TEST_F(JitteredExecutorTest, TimesAreOffByWhatIsAskedFor) {
  constexpr int kTimes = 20'000;
  const auto executor = Make(0.02, /*seed=*/1);
  double sum = 0;
  double squares = 0;
  for (const IterationTiming& timing : Run(*executor, kTimes)) {
    const double off = timing.device.millis() / 10 - 1;
    sum += off;
    squares += off * off;
    EXPECT_NEAR(timing.decodes_alone.millis(), 0.4 * timing.device.millis(),
                1e-6);
    EXPECT_EQ(timing.predicted, SimDuration::Millis(10));
    EXPECT_EQ(timing.host, SimDuration::Millis(1));
  }
  // Three standard errors: 0.02 / sqrt(20,000), and 0.02 / sqrt(2 x 20,000).
  EXPECT_NEAR(sum / kTimes, 0, 4.3e-4);
  EXPECT_NEAR(std::sqrt(squares / kTimes), 0.02, 3e-4);
}

TEST_F(JitteredExecutorTest, TheSeedDecides) {
  const auto device = [&](uint64_t seed) {
    std::vector<SimDuration> times;
    for (const auto& timing : Run(*Make(0.02, seed), 10)) {
      times.push_back(timing.device);
    }
    return times;
  };
  EXPECT_EQ(device(1), device(1));
  EXPECT_NE(device(1), device(2));
}

TEST_F(JitteredExecutorTest, ForeseesNothing) {
  EXPECT_FALSE(Make(0.02, 1)->CanForesee());
  EXPECT_EQ(Make(0.02, 1)->Predict({}), SimDuration::Millis(10));
}

TEST_F(JitteredExecutorTest, PassesErrorsOn) {
  IterationTiming timing;
  EXPECT_THAT(
      Make(0.02, 1, absl::InternalError("no card"))->Run(OneBatch(), timing),
      StatusIs(absl::StatusCode::kInternal));
}

}  // namespace
}  // namespace interleave::sim
