#include "sim/output/progress_bar.h"

#include <sstream>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

TEST(ProgressBarTest, KeepsQuietForASecond) {
  std::ostringstream out;
  {
    ProgressBar bar(&out);
    bar.UpdateAt(0.5, absl::Now());
  }
  EXPECT_EQ(out.str(), "");
}

TEST(ProgressBarTest, DrawsNowAndThenAndWipesItself) {
  std::ostringstream out;
  const absl::Time later = absl::Now() + absl::Seconds(100);
  {
    ProgressBar bar(&out);
    bar.UpdateAt(0.25, later);
    bar.UpdateAt(0.5, later + absl::Milliseconds(50));
    EXPECT_EQ(out.str(),
              "\r\x1b[K[##########..............................]  25%, 100 s");
    bar.UpdateAt(-1, later + absl::Seconds(1));
  }
  EXPECT_EQ(out.str(),
            "\r\x1b[K[##########..............................]  25%, 100 s"
            "\r\x1b[Krunning, 101 s\r\x1b[K");
}

TEST(ProgressBarTest, NobodyLooks) {
  ProgressBar bar(nullptr);
  bar.UpdateAt(0.5, absl::Now() + absl::Seconds(100));
}

}  // namespace
}  // namespace interleave::sim
