#include "sim/kernel_executor/linear_choices.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

using ::testing::HasSubstr;

constexpr char kHeader[] = "cublas_lt_version,layer,tokens,algorithm\n";

LinearChoices Choices() {
  LinearChoices choices;
  choices.cublas_lt_version = 130200;
  choices.layers["qkv"][8] = {1, 2, 3, 4, 5, 6, 7, 0xfedcba9876543210};
  choices.layers["qkv"][448] = {0xffffffffffffffff};
  choices.layers["lm_head"][64] = {};
  return choices;
}

TEST(LinearChoicesTest, Text) {
  EXPECT_THAT(
      FormatLinearChoices(Choices()),
      HasSubstr(absl::StrCat(
          "130200,qkv,8,0000000000000001", "0000000000000002",
          "0000000000000003", "0000000000000004", "0000000000000005",
          "0000000000000006", "0000000000000007", "fedcba9876543210\n")));
}

TEST(LinearChoicesTest, CanBeReadBack) {
  ASSERT_OK_AND_ASSIGN(
      const LinearChoices read,
      ParseLinearChoices(FormatLinearChoices(Choices()), "choices"));
  EXPECT_EQ(read, Choices());
  ASSERT_OK_AND_ASSIGN(const LinearChoices none,
                       ParseLinearChoices(kHeader, "choices"));
  EXPECT_EQ(none, LinearChoices());
}

TEST(LinearChoicesTest, SaysWhatIsWrong) {
  const std::string zeros(128, '0');
  const auto expect = [&](const std::string& lines, const char* what) {
    EXPECT_THAT(ParseLinearChoices(absl::StrCat(kHeader, lines), "choices"),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)))
        << lines;
  };
  expect(absl::StrCat("1,qkv,8,", zeros.substr(1), "\n"), "choices:2");
  expect(absl::StrCat("1,qkv,8,", zeros.substr(1), "G\n"), "hex");
  expect(absl::StrCat("1,qkv,0,", zeros, "\n"), "tokens");
  expect(absl::StrCat("1,qkv,8,", zeros, "\n2,qkv,16,", zeros, "\n"),
         "choices:3");
  expect(absl::StrCat("1,qkv,8,", zeros, "\n1,qkv,8,", zeros, "\n"),
         "a line before");
  EXPECT_THAT(ParseLinearChoices("", "choices"),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace interleave::sim
