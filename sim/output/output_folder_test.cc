#include "sim/output/output_folder.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/file_testing.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void Write(const fs::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

using OutputFolderTest = TempFolderTest;

TEST_F(OutputFolderTest, AppearsWholeOnCommit) {
  ASSERT_OK_AND_ASSIGN(auto folder, OutputFolder::Create(Path("a/out/"), {}));
  ASSERT_OK(folder->AddFile("summary.csv", "x\n"));
  ASSERT_OK_AND_ASSIGN(OutputFile* const file, folder->AddFile("deep/rows"));
  file->Append("one\n");
  EXPECT_FALSE(fs::exists(Path("a/out")));
  ASSERT_OK(folder->Commit());
  EXPECT_EQ(folder->path(), fs::canonical(Path("a/out")).string());
  EXPECT_THAT(NamesIn(Path("a")), ElementsAre("out"));
  EXPECT_EQ(ReadWholeFile(Path("a/out/summary.csv")), "x\n");
  EXPECT_EQ(ReadWholeFile(Path("a/out/deep/rows")), "one\n");
}

TEST_F(OutputFolderTest, LeavesNothingUnlessCommitted) {
  {
    ASSERT_OK_AND_ASSIGN(auto folder, OutputFolder::Create(Path("out"), {}));
    ASSERT_OK(folder->AddFile("rows.csv", "x\n"));
  }
  EXPECT_THAT(NamesIn(root_), IsEmpty());
}

TEST_F(OutputFolderTest, TakesAnEmptyFolder) {
  fs::create_directory(Path("out"));
  ASSERT_OK_AND_ASSIGN(auto folder, OutputFolder::Create(Path("out"), {}));
  ASSERT_OK(folder->AddFile("rows.csv", "x\n"));
  ASSERT_OK(folder->Commit());
  EXPECT_THAT(NamesIn(Path("out")), ElementsAre("rows.csv"));
}

TEST_F(OutputFolderTest, RefusesWhatIsThere) {
  fs::create_directory(Path("out"));
  Write(Path("out/notes.txt"), "mine");
  EXPECT_THAT(
      OutputFolder::Create(Path("out"), {}),
      StatusIs(absl::StatusCode::kAlreadyExists,
               AllOf(HasSubstr("is not empty"), HasSubstr("--overwrite"))));
  EXPECT_THAT(
      OutputFolder::Create(Path("out/notes.txt"), {}),
      StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("is no folder")));
  EXPECT_FALSE(OutputFolder::Create(Path("out/notes.txt/below"), {}).ok());
  EXPECT_THAT(OutputFolder::Create("", {}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(OutputFolder::Create("/", {}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(ReadWholeFile(Path("out/notes.txt")), "mine");
}

TEST_F(OutputFolderTest, OverwriteReplacesOursAndKeepsTheRest) {
  fs::create_directories(Path("out/seeds/7"));
  Write(Path("out/notes.txt"), "mine");
  Write(Path("out/rows.csv"), "old");
  Write(Path("out/seeds/7/rows.csv"), "old");
  ASSERT_OK_AND_ASSIGN(
      auto folder,
      OutputFolder::Create(Path("out"),
                           {.overwrite = true, .replaceable = {"seeds"}}));
  ASSERT_OK(folder->AddFile("rows.csv", "new"));
  ASSERT_OK(folder->Commit());
  EXPECT_THAT(NamesIn(root_), ElementsAre("out"));
  EXPECT_THAT(NamesIn(Path("out")), ElementsAre("notes.txt", "rows.csv"));
  EXPECT_EQ(ReadWholeFile(Path("out/notes.txt")), "mine");
  EXPECT_EQ(ReadWholeFile(Path("out/rows.csv")), "new");
}

TEST_F(OutputFolderTest, AFullDiskLeavesNothingAndKeepsTheOld) {
  fs::create_directory(Path("out"));
  Write(Path("out/rows.csv"), "old");
  {
    const FileSizeLimit limit(4096);
    ASSERT_OK_AND_ASSIGN(
        auto folder, OutputFolder::Create(
                         Path("out"), {.overwrite = true, .replaceable = {}}));
    ASSERT_OK_AND_ASSIGN(OutputFile* const file, folder->AddFile("rows.csv"));
    for (int i = 0; i < 1000; ++i) file->Append("0123456789\n");
    EXPECT_THAT(folder->Commit(),
                StatusIs(absl::StatusCode::kDataLoss,
                         AllOf(HasSubstr("out/rows.csv: cannot be written"),
                               HasSubstr("too large"))));
  }
  EXPECT_THAT(NamesIn(root_), ElementsAre("out"));
  EXPECT_EQ(ReadWholeFile(Path("out/rows.csv")), "old");
}

TEST(OutputFileTest, ReportsAFullDevice) {
  ASSERT_OK_AND_ASSIGN(auto file, OutputFile::Open("/dev/full", "rows.csv"));
  file->Append("x");
  EXPECT_OK(file->status());
  EXPECT_THAT(file->Close(),
              StatusIs(absl::StatusCode::kDataLoss,
                       "rows.csv: cannot be written: No space left on device"));
  file->Append("y");
  EXPECT_THAT(file->Close(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(OutputFileTest, FailsOnTheWayOnceTheBufferIsFull) {
  ASSERT_OK_AND_ASSIGN(auto file, OutputFile::Open("/dev/full", "rows.csv"));
  const std::string block(size_t{1} << 16, 'x');
  for (int i = 0; i < 6; ++i) file->Append(block);
  EXPECT_THAT(file->status(), StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace interleave::sim
