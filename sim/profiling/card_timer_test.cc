#include "sim/profiling/card_timer.h"

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

TEST(CardTimerTest, RecoversByDecodes) {
  FakeTimer fake;
  CardTimer timer(Decodes(32, 1024), &fake, nullptr);
  const MeasuredBatch prompt = Mixed({1024, 0}, 0, 0);
  // What is not throttled needs no recovery.
  ASSERT_OK(timer.Time(prompt).status());
  ASSERT_OK(timer.Recover());
  EXPECT_EQ(fake.decodes, 0);
  timer.set_throttle({50'000, 0.2, 0.1, 128, 512});
  ASSERT_OK(timer.Time(prompt).status());
  // Of 0.4 time constants; each decode leaves 0.9048 of it, and 8 bring it
  // below 0.15.
  EXPECT_NEAR(timer.state(), 0.3292, 1e-4);
  ASSERT_OK(timer.Recover());
  EXPECT_EQ(fake.decodes, 8);
  EXPECT_NEAR(timer.state(), 0.1479, 1e-4);
}

TEST(CardTimerTest, StopsWhenTold) {
  FakeTimer fake;
  int left = 3;
  CardTimer timer(Decodes(32, 1024), &fake, [&left] { return --left > 0; });
  timer.set_throttle({50'000, 0.2, 0.1, 128, 512});
  ASSERT_OK(timer.Time(Mixed({1024, 0}, 0, 0)).status());
  EXPECT_THAT(timer.Recover(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(fake.decodes, 2);
}

}  // namespace
}  // namespace interleave::sim
