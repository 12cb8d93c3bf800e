#include "base/line_reader.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Lines(absl::string_view text) {
  LineReader reader(text, "t");
  std::vector<std::string> lines;
  while (reader.Next()) lines.emplace_back(reader.line());
  return lines;
}

TEST(LineReaderTest, SplitsLines) {
  EXPECT_THAT(Lines("a\nb\n"), ElementsAre("a", "b"));
  EXPECT_THAT(Lines("a\nb"), ElementsAre("a", "b"));
  EXPECT_THAT(Lines("a\r\nb\r\n"), ElementsAre("a", "b"));
  EXPECT_THAT(Lines("\xef\xbb\xbf"
                    "a\n"),
              ElementsAre("a"));
  EXPECT_THAT(Lines("a\n\nb\n"), ElementsAre("a", "", "b"));
}

TEST(LineReaderTest, IgnoresEmptyLinesAtTheEnd) {
  EXPECT_THAT(Lines(""), IsEmpty());
  EXPECT_THAT(Lines("\n\r\n \n"), IsEmpty());
  EXPECT_THAT(Lines("\xef\xbb\xbf"), IsEmpty());
  EXPECT_THAT(Lines("a\n\n\n"), ElementsAre("a"));
}

TEST(LineReaderTest, ErrorsNameTheLine) {
  LineReader reader("a\n\nb", "f.csv");
  ASSERT_TRUE(reader.Next());
  ASSERT_TRUE(reader.Next());
  EXPECT_EQ(reader.number(), 2);
  EXPECT_EQ(reader.Error("wrong"),
            absl::InvalidArgumentError("f.csv:2: wrong"));
}

TEST(QuoteForMessageTest, EscapesAndCuts) {
  EXPECT_EQ(QuoteForMessage("a\tb"), "\"a\\tb\"");
  EXPECT_EQ(QuoteForMessage(absl::string_view("\0\xff", 2)), "\"\\x00\\xff\"");
  EXPECT_EQ(QuoteForMessage(std::string(41, 'x')),
            "\"" + std::string(40, 'x') + "...\"");
}

}  // namespace
}  // namespace interleave
