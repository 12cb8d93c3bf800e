#include "base/parse_number.h"

#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

TEST(ParseIntTest, WholeNumbers) {
  EXPECT_THAT(ParseInt("0", 0, 9), IsOkAndHolds(0));
  EXPECT_THAT(ParseInt("-7", -9, 9), IsOkAndHolds(-7));
  EXPECT_THAT(ParseInt("007", 0, 9), IsOkAndHolds(7));
  EXPECT_THAT(ParseInt("9223372036854775807", kMin, kMax), IsOkAndHolds(kMax));
  EXPECT_THAT(ParseInt("-9223372036854775808", kMin, kMax), IsOkAndHolds(kMin));
}

TEST(ParseIntTest, RefusesWhatIsNone) {
  for (const char* text : {"x", "1x", "1.0", "+1", " 1", "1 ", "1e3", "0x10",
                           "-", "--1", "1,000", "nan"}) {
    EXPECT_THAT(ParseInt(text, kMin, kMax),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("is not a whole number")))
        << text;
  }
  EXPECT_THAT(ParseInt("", kMin, kMax),
              StatusIs(absl::StatusCode::kInvalidArgument, "is empty"));
}

TEST(ParseIntTest, RefusesOutOfRange) {
  EXPECT_THAT(ParseInt("10", 0, 9), StatusIs(absl::StatusCode::kInvalidArgument,
                                             "\"10\" must be in [0, 9]"));
  EXPECT_THAT(ParseInt("9223372036854775808", 0, 9),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "\"9223372036854775808\" is out of range: it must be in "
                       "[0, 9]"));
}

TEST(ParseDoubleTest, Numbers) {
  EXPECT_THAT(ParseDouble("0.1", 0, 1), IsOkAndHolds(0.1));
  EXPECT_THAT(ParseDouble("-2.5e-3", -1, 1), IsOkAndHolds(-0.0025));
  EXPECT_THAT(ParseDouble("12", 0, 100), IsOkAndHolds(12.0));
}

TEST(ParseDoubleTest, RefusesWhatIsNone) {
  for (const char* text : {"x", "1.0.0", "+1", " 1", "1 ", "1e", "0x1p3"}) {
    EXPECT_THAT(ParseDouble(text, -1e9, 1e9),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("is not a number")))
        << text;
  }
}

TEST(ParseDoubleTest, RefusesOutOfRangeAndNotFinite) {
  for (const char* text : {"nan", "-nan", "inf", "-inf", "1e400", "2"}) {
    EXPECT_THAT(ParseDouble(text, 0, 1),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("must be in [0, 1]")))
        << text;
  }
}

}  // namespace
}  // namespace interleave
