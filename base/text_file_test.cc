#include "base/text_file.h"

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave {
namespace {

using ::testing::HasSubstr;

TEST(TextFileTest, ReadsEveryByte) {
  const std::string path = ::testing::TempDir() + "/bytes.txt";
  std::string written = "a\r\n";
  written.push_back('\0');
  written += std::string(200000, 'x');
  std::ofstream(path, std::ios::binary) << written;
  EXPECT_THAT(ReadTextFile(path), IsOkAndHolds(written));
}

TEST(TextFileTest, MissingFileIsNotFound) {
  EXPECT_THAT(ReadTextFile("/no/such/file.csv"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("/no/such/file.csv: cannot read")));
}

TEST(TextFileTest, FolderIsRefused) {
  EXPECT_THAT(
      ReadTextFile(::testing::TempDir()),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("directory")));
}

}  // namespace
}  // namespace interleave
