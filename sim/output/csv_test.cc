#include "sim/output/csv.h"

#include <cstdint>
#include <limits>

#include "base/sim_time.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

TEST(CsvRowTest, WritesTimesExactly) {
  CsvRow row;
  row.Millis(SimDuration::Nanos(0))
      .Millis(SimDuration::Nanos(1))
      .Millis(SimDuration::Nanos(12'345'678))
      .Millis(SimDuration::Nanos(-1'500'000))
      .Seconds(SimTime::FromNanos(604'800'000'000'001))
      .Seconds(SimDuration::Nanos(1'000'000'000))
      .End();
  EXPECT_EQ(row.text(),
            "0.000000,0.000001,12.345678,-1.500000,604800.000000001,"
            "1.000000000\n");
}

TEST(CsvRowTest, WritesTheExtremes) {
  CsvRow row;
  row.Seconds(SimDuration::Max())
      .Seconds(SimDuration::Nanos(std::numeric_limits<int64_t>::min()))
      .Int(std::numeric_limits<int64_t>::min())
      .End();
  EXPECT_EQ(row.text(),
            "9223372036.854775807,-9223372036.854775808,"
            "-9223372036854775808\n");
}

TEST(CsvRowTest, QuotesWhatMustBeQuoted) {
  CsvRow row;
  row.Text("plain").Text("a,b").Text("say \"so\"").Text("two\nlines").End();
  EXPECT_EQ(row.text(), "plain,\"a,b\",\"say \"\"so\"\"\",\"two\nlines\"\n");
}

TEST(CsvRowTest, EmptyFieldsCountFromTheFirst) {
  CsvRow row;
  row.Empty().Int(1).Empty().End();
  EXPECT_EQ(row.text(), ",1,\n");
  row.Clear();
  row.Number(0.1).Number(1e300).End();
  EXPECT_EQ(row.text(), "0.1,1e+300\n");
}

}  // namespace
}  // namespace interleave::sim
