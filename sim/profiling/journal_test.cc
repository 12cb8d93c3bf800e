#include "sim/profiling/journal.h"

#include <cstdio>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_testing.h"
#include "base/text_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

using ::testing::HasSubstr;

std::string Fresh(const std::string& name) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  std::remove(path.c_str());
  return path;
}

BatchTime Time(int64_t device, int64_t host) {
  return {SimDuration::Nanos(device), SimDuration::Nanos(host)};
}

TEST(JournalTest, GoesOnWhereItWas) {
  const std::string path = Fresh("resume");
  {
    ASSERT_OK_AND_ASSIGN(const auto journal, Journal::Open(path, "a card"));
    EXPECT_EQ(journal->resumed(), 0);
    EXPECT_OK(journal->Add("x", Time(5, 1)));
    EXPECT_OK(journal->Add("y", Time(7, 2)));
    EXPECT_FALSE(journal->Find("z").has_value());
  }
  {
    ASSERT_OK_AND_ASSIGN(const auto journal, Journal::Open(path, "a card"));
    EXPECT_EQ(journal->resumed(), 2);
    EXPECT_EQ(journal->Find("y")->device.nanos(), 7);
    EXPECT_EQ(journal->Find("y")->host.nanos(), 2);
    EXPECT_OK(journal->Add("z", Time(9, 3)));
  }
  EXPECT_THAT(ReadTextFile(path),
              IsOkAndHolds("# interleave profile: a card\nx,5,1\ny,7,2\n"
                           "z,9,3\n"));
}

TEST(JournalTest, DropsALineThatWasBeingWritten) {
  const std::string path = Fresh("torn");
  std::ofstream(path) << "# interleave profile: a card\nx,5,1\ny,7";
  {
    ASSERT_OK_AND_ASSIGN(const auto journal, Journal::Open(path, "a card"));
    EXPECT_EQ(journal->resumed(), 1);
    EXPECT_FALSE(journal->Find("y").has_value());
    EXPECT_OK(journal->Add("y", Time(8, 0)));
  }
  EXPECT_THAT(ReadTextFile(path),
              IsOkAndHolds("# interleave profile: a card\nx,5,1\ny,8,0\n"));
}

TEST(JournalTest, StartsAgainAfterATornHead) {
  const std::string path = Fresh("head");
  std::ofstream(path) << "# inter";
  ASSERT_OK_AND_ASSIGN(const auto journal, Journal::Open(path, "a card"));
  EXPECT_THAT(ReadTextFile(path),
              IsOkAndHolds("# interleave profile: a card\n"));
}

TEST(JournalTest, DropsEmptyLinesBeforeItGoesOn) {
  const std::string path = Fresh("empty_lines");
  std::ofstream(path) << "# interleave profile: a card \n\r\n \n";
  {
    ASSERT_OK_AND_ASSIGN(const auto journal, Journal::Open(path, "a card"));
    EXPECT_EQ(journal->resumed(), 0);
    EXPECT_OK(journal->Add("x", Time(5, 1)));
  }
  ASSERT_OK_AND_ASSIGN(const auto journal, Journal::Open(path, "a card"));
  EXPECT_EQ(journal->resumed(), 1);
  EXPECT_THAT(ReadTextFile(path),
              IsOkAndHolds("# interleave profile: a card\nx,5,1\n"));
}

TEST(JournalTest, LeavesAFileWithoutLinesAlone) {
  const std::string path = Fresh("no_lines");
  std::ofstream(path) << "precious";
  EXPECT_THAT(Journal::Open(path, "a card"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("holds \"precious\"")));
  EXPECT_THAT(ReadTextFile(path), IsOkAndHolds("precious"));
}

TEST(JournalTest, RefusesAnotherSubjectAndOtherFiles) {
  const std::string path = Fresh("other");
  std::ofstream(path) << "# interleave profile: card A\nx,5,1\n";
  EXPECT_THAT(Journal::Open(path, "card B"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("give another folder")));
  for (const char* line : {"x,5", "x,-5,1", ",5,1", "x,5,1,2", "x,y,1"}) {
    std::ofstream(path) << "# interleave profile: card A\n" << line << "\n";
    EXPECT_THAT(Journal::Open(path, "card A"),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat(path, ":2: expected"))));
  }
}

TEST(JournalTest, NoSuchFolder) {
  EXPECT_THAT(
      Journal::Open("/no/such/journal", "a card"),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such/journal")));
}

}  // namespace
}  // namespace interleave::sim
