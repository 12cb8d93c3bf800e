#include "base/status_macros.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<int> Half(int n) {
  if (n % 2 != 0) return absl::InvalidArgumentError("odd");
  return n / 2;
}

absl::StatusOr<int> Quarter(int n) {
  ASSIGN_OR_RETURN(const int half, Half(n));
  ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

absl::Status CheckEven(int n) {
  RETURN_IF_ERROR(Half(n).status());
  return absl::OkStatus();
}

TEST(StatusMacrosTest, PassValuesAndErrors) {
  EXPECT_THAT(Quarter(8), IsOkAndHolds(2));
  EXPECT_THAT(Quarter(6), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_OK(CheckEven(2));
  EXPECT_THAT(CheckEven(3),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("odd")));
}

TEST(StatusMacrosTest, MoveOnlyValues) {
  auto make = []() -> absl::StatusOr<std::unique_ptr<int>> {
    return std::make_unique<int>(7);
  };
  auto use = [&]() -> absl::StatusOr<int> {
    ASSIGN_OR_RETURN(std::unique_ptr<int> p, make());
    return *p;
  };
  EXPECT_THAT(use(), IsOkAndHolds(7));
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<int> p, make());
  EXPECT_EQ(*p, 7);
}

}  // namespace
}  // namespace interleave
