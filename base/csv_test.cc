#include "base/csv.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

auto IsInvalid(const char* message) {
  return StatusIs(absl::StatusCode::kInvalidArgument, message);
}

TEST(CsvReaderTest, ReadsRows) {
  CsvReader csv("a,b\n1, 2.5\n-3 ,4\n", "f");
  ASSERT_THAT(csv.ReadHeader(), IsOk());
  EXPECT_THAT(csv.header(), ElementsAre("a", "b"));
  EXPECT_THAT(csv.Column("b"), IsOkAndHolds(1));
  EXPECT_EQ(csv.OptionalColumn("c"), -1);
  EXPECT_THAT(csv.Next(), IsOkAndHolds(true));
  EXPECT_THAT(csv.Int(0, 0, 9), IsOkAndHolds(1));
  EXPECT_THAT(csv.Double(1, 0, 9), IsOkAndHolds(2.5));
  EXPECT_THAT(csv.Next(), IsOkAndHolds(true));
  EXPECT_EQ(csv.Text(0), "-3");
  EXPECT_EQ(csv.line_number(), 3);
  EXPECT_THAT(csv.Next(), IsOkAndHolds(false));
}

TEST(CsvReaderTest, EmptyText) {
  CsvReader csv("", "f.csv");
  EXPECT_THAT(csv.ReadHeader(),
              IsInvalid("f.csv:1: the file is empty; it must start with a line "
                        "of column names"));
}

TEST(CsvReaderTest, RefusesBadHeaders) {
  CsvReader repeated("a,b,a\n", "f");
  EXPECT_THAT(
      repeated.ReadHeader(),
      IsInvalid("f:1: two columns are named \"a\"; remove or rename one"));
  CsvReader nameless("a,,b\n", "f");
  EXPECT_THAT(
      nameless.ReadHeader(),
      IsInvalid("f:1: column 2 has no name; name it or remove its comma"));
}

TEST(CsvReaderTest, MissingAndUnknownColumns) {
  CsvReader csv("a,b\n", "f");
  ASSERT_THAT(csv.ReadHeader(), IsOk());
  EXPECT_THAT(csv.Column("c"),
              IsInvalid("f:1: column c is missing; the first line must name "
                        "it, and names \"a,b\""));
  EXPECT_THAT(csv.RefuseOtherColumns({"a", "b", "c"}), IsOk());
  EXPECT_THAT(csv.RefuseOtherColumns({"a", "c"}),
              IsInvalid("f:1: unknown column \"b\"; known are a, c"));
}

TEST(CsvReaderTest, RefusesBadRows) {
  CsvReader csv("a,b\n1\n1,2,3\na,b\n\n1,x\n", "f");
  ASSERT_THAT(csv.ReadHeader(), IsOk());
  EXPECT_THAT(csv.Next(), IsInvalid("f:2: 1 field where the header has 2; is "
                                    "the line cut short?"));
  EXPECT_THAT(csv.Next(), IsInvalid("f:3: 3 fields where the header has 2; "
                                    "quoted commas are not supported"));
  EXPECT_THAT(csv.Next(), IsInvalid("f:4: the header again; remove this line"));
  EXPECT_THAT(csv.Next(),
              IsInvalid("f:5: an empty line amid the rows; remove it"));
  ASSERT_THAT(csv.Next(), IsOkAndHolds(true));
  EXPECT_THAT(csv.Int(1, 0, 9),
              IsInvalid("f:6: b \"x\" is not a whole number"));
  EXPECT_THAT(csv.Double(1, 0, 9), IsInvalid("f:6: b \"x\" is not a number"));
}

}  // namespace
}  // namespace interleave
