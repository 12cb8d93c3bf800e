#include "sim/cost/csv.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

using Rows = std::vector<std::pair<int64_t, double>>;

absl::StatusOr<Rows> Read(absl::string_view text) {
  Rows rows;
  RETURN_IF_ERROR(
      ForEachCsvRow(text, "f.csv", {"n", "t"}, [&](const TableRow& row) {
        const absl::StatusOr<int64_t> n = row.Count(0);
        RETURN_IF_ERROR(n.status());
        const absl::StatusOr<double> t = row.NonNegative(1);
        RETURN_IF_ERROR(t.status());
        rows.emplace_back(*n, *t);
        return absl::OkStatus();
      }));
  return rows;
}

TEST(CsvTest, Reads) {
  EXPECT_THAT(Read("n,t\n1,2.5\n3,4e2\n"),
              IsOkAndHolds(ElementsAre(Pair(1, 2.5), Pair(3, 400.0))));
}

TEST(CsvTest, ByteOrderMarkCrlfEmptyLinesAndNoLastNewline) {
  EXPECT_THAT(Read("\xEF\xBB\xBFn,t\r\n1,2\r\n\r\n3,4"),
              IsOkAndHolds(ElementsAre(Pair(1, 2.0), Pair(3, 4.0))));
}

TEST(CsvTest, FindsColumnsByName) {
  EXPECT_THAT(Read("t,other,n\n2,x,1\n"),
              IsOkAndHolds(ElementsAre(Pair(1, 2.0))));
}

TEST(CsvTest, Errors) {
  const auto error = [](absl::string_view what) {
    return StatusIs(absl::StatusCode::kInvalidArgument,
                    HasSubstr(std::string(what)));
  };
  EXPECT_THAT(Read(""), error("f.csv:1: no column \"n\""));
  EXPECT_THAT(Read("n,u\n1,2\n"), error("must name n,t"));
  EXPECT_THAT(Read("n,t\n"), error("f.csv:1: no rows"));
  EXPECT_THAT(Read("n,t\n1,2\n3\n"), error("f.csv:3: 1 fields"));
  EXPECT_THAT(Read("n,t\n1,2\nn,t\n"), error("f.csv:3: n is \"n\""));
  EXPECT_THAT(Read("n,t\n-1,2\n"), error("f.csv:2: n is \"-1\""));
  EXPECT_THAT(Read("n,t\n1,nan\n"), error("f.csv:2: t is \"nan\""));
  EXPECT_THAT(Read("n,t\n1,-2\n"), error("t is -2; expected a number from 0"));
  EXPECT_THAT(Read("n,t\n1,\n"), error("t is \"\""));
  EXPECT_THAT(Read("n,t\n99999999999999999999,1\n"), error("whole number"));
}

}  // namespace
}  // namespace interleave::sim
