#include "sim/cost/gzip.h"

#include <zlib.h>

#include <fstream>
#include <iterator>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

using ::testing::HasSubstr;

std::string Path(const char* name) {
  return absl::StrCat(testing::TempDir(), "/", name);
}

void WriteGzip(const std::string& path, const std::string& text) {
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
            static_cast<int>(text.size()));
  ASSERT_EQ(gzclose(file), Z_OK);
}

TEST(GzipTest, CompressedAndPlain) {
  const std::string text(200'000, 'x');
  WriteGzip(Path("a.gz"), text);
  EXPECT_THAT(ReadMaybeGzip(Path("a.gz")), IsOkAndHolds(text));
  std::ofstream(Path("a.csv")) << "plain";
  EXPECT_THAT(ReadMaybeGzip(Path("a.csv")), IsOkAndHolds("plain"));
}

TEST(GzipTest, Errors) {
  EXPECT_THAT(ReadMaybeGzip("/nonexistent.gz"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("/nonexistent.gz: cannot be opened")));
  std::string text;
  for (int i = 0; i < 50'000; ++i) absl::StrAppend(&text, i * 7919 % 10007);
  WriteGzip(Path("b.gz"), text);
  EXPECT_THAT(ReadMaybeGzip(Path("b.gz"), 1'000),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("more than 1000 bytes")));
  std::string bytes;
  {
    std::ifstream in(Path("b.gz"), std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  std::ofstream(Path("cut.gz"), std::ios::binary)
      << bytes.substr(0, bytes.size() / 2);
  EXPECT_THAT(ReadMaybeGzip(Path("cut.gz")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("damaged or cut off")));
}

}  // namespace
}  // namespace interleave::sim
