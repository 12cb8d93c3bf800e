#include "sim/workload/utc_timestamp.h"

#include <cstdint>

#include "absl/status/status.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000;

// Seconds as `date -u -d ... +%s` gives them.
TEST(UtcTimestampTest, KnownTimes) {
  EXPECT_THAT(ParseUtcTimestamp("1970-01-01 00:00:00"), IsOkAndHolds(0));
  EXPECT_THAT(ParseUtcTimestamp("2023-11-16 18:15:46.6805900"),
              IsOkAndHolds(1700158546 * kSecond + 680590000));
  EXPECT_THAT(ParseUtcTimestamp("2000-03-01 00:00:00"),
              IsOkAndHolds(951868800 * kSecond));
  EXPECT_THAT(ParseUtcTimestamp("2024-02-29T23:59:59.000000001"),
              IsOkAndHolds(1709251199 * kSecond + 1));
  EXPECT_THAT(ParseUtcTimestamp("2200-12-31 23:59:59"),
              IsOkAndHolds(7289654399 * kSecond));
}

TEST(UtcTimestampTest, AcceptsUtcZones) {
  EXPECT_THAT(ParseUtcTimestamp("1970-01-01 00:00:01.5+00:00"),
              IsOkAndHolds(1500000000));
  EXPECT_THAT(ParseUtcTimestamp("1970-01-01T00:00:01Z"),
              IsOkAndHolds(1000000000));
}

TEST(UtcTimestampTest, RefusesWhatIsNoTime) {
  for (const char* text :
       {"", "x", "2023-11-16", "2023-11-16 18:15", "2023/11/16 18:15:46",
        "2023-11-16 18:15:46.", "2023-11-16 18:15:46.1234567890",
        "2023-11-16 18:15:46,5", "2023-11-16 18:15:46.68x",
        "2023-11-16 18:15:46+01:00", "12.5"}) {
    EXPECT_THAT(ParseUtcTimestamp(text),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("is not a time like")))
        << text;
  }
}

TEST(UtcTimestampTest, RefusesImpossibleDates) {
  for (const char* text :
       {"2023-02-29 00:00:00", "2023-13-01 00:00:00", "2023-00-01 00:00:00",
        "2023-04-31 00:00:00", "2023-01-00 00:00:00", "2023-01-01 24:00:00",
        "2023-01-01 00:60:00", "2023-01-01 00:00:60", "1969-12-31 00:00:00",
        "2201-01-01 00:00:00"}) {
    EXPECT_THAT(ParseUtcTimestamp(text),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("is no date and time")))
        << text;
  }
}

}  // namespace
}  // namespace interleave::sim
