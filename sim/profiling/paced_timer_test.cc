#include "sim/profiling/paced_timer.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sim_time.h"
#include "base/status_testing.h"
#include "gtest/gtest.h"
#include "sim/cost/throttle.h"
#include "sim/profiling/batch_timer.h"
#include "sim/profiling/measured_batch.h"

namespace interleave::sim {
namespace {

// A prompt takes 20 ms, decodes 5 ms.
class FakeTimer final : public BatchTimer {
 public:
  absl::StatusOr<BatchTime> Time(const MeasuredBatch& batch) override {
    const bool prompt = !batch.chunks.empty();
    ++(prompt ? prompts : decodes);
    return BatchTime{SimDuration::Millis(prompt ? 20 : 5), SimDuration::Zero()};
  }
  int prompts = 0;
  int decodes = 0;
};

TEST(PacedTimerTest, HeatsOnceARow) {
  FakeTimer fake;
  PacedTimer timer({}, &fake, nullptr);
  ASSERT_OK(timer.Heat());
  EXPECT_EQ(fake.prompts, 5);
  ASSERT_OK(timer.Heat());
  EXPECT_EQ(fake.prompts, 5);
  ASSERT_OK(timer.Time(timer.decodes()).status());
  ASSERT_OK(timer.Heat());
  EXPECT_EQ(fake.prompts, 10);
}

TEST(PacedTimerTest, RecoversByDecodes) {
  FakeTimer fake;
  PacedTimer timer({}, &fake, nullptr);
  // What is not throttled needs no recovery.
  ASSERT_OK(timer.Heat());
  ASSERT_OK(timer.Recover());
  EXPECT_EQ(fake.decodes, 0);
  timer.set_throttle({50'000, 0.2, 0.1, 128, 512, {}});
  ASSERT_OK(timer.Time(timer.prompt()).status());
  // 0.4 / 1.4; each decode divides it by 1.1, and 12 bring it below 0.1.
  EXPECT_NEAR(timer.state(), 0.2857, 1e-4);
  ASSERT_OK(timer.Recover());
  EXPECT_EQ(fake.decodes, 12);
  EXPECT_LE(timer.state(), 0.1);
}

TEST(PacedTimerTest, KeepsTheShareOfPrompts) {
  FakeTimer fake;
  PacedTimer timer({}, &fake, nullptr);
  for (int i = 0; i < 2000; ++i) {
    ASSERT_OK(timer.Pace());
    ASSERT_OK(timer.Time(timer.decodes()).status());
  }
  const double prompts = 20.0 * fake.prompts;
  EXPECT_NEAR(prompts / (prompts + 5.0 * fake.decodes), 0.25, 0.01);
}

TEST(PacedTimerTest, StopsWhenTold) {
  FakeTimer fake;
  int left = 3;
  PacedTimer timer({}, &fake, [&left] { return --left > 0; });
  EXPECT_THAT(timer.Heat(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(fake.prompts, 3);
}

}  // namespace
}  // namespace interleave::sim
