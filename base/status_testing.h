// Matchers over absl::Status and absl::StatusOr, as in later releases of
// Abseil.
//
//   EXPECT_THAT(pool.Release(ids), IsOk());
//   EXPECT_THAT(ParseTrace("x"),
//               StatusIs(absl::StatusCode::kInvalidArgument,
//                        HasSubstr("line 1")));
//   ASSERT_OK_AND_ASSIGN(const Trace trace, ParseTrace(text));

#ifndef BASE_STATUS_TESTING_H_
#define BASE_STATUS_TESTING_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave {

inline const absl::Status& GetStatus(const absl::Status& status) {
  return status;
}

template <typename T>
const absl::Status& GetStatus(const absl::StatusOr<T>& status_or) {
  return status_or.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << "which is " << GetStatus(arg).ToString();
  return GetStatus(arg).ok();
}

MATCHER_P2(StatusIs, code, message_matcher, "has the given code and message") {
  const absl::Status& status = GetStatus(arg);
  *result_listener << "which is " << status.ToString();
  return status.code() == code &&
         testing::ExplainMatchResult(
             testing::Matcher<std::string>(message_matcher),
             std::string(status.message()), result_listener);
}

MATCHER_P(StatusIs, code, "has the given code") {
  *result_listener << "which is " << GetStatus(arg).ToString();
  return GetStatus(arg).code() == code;
}

MATCHER_P(IsOkAndHolds, matcher, "is OK and holds a matching value") {
  if (!arg.ok()) {
    *result_listener << "which is " << arg.status().ToString();
    return false;
  }
  return testing::ExplainMatchResult(matcher, *arg, result_listener);
}

}  // namespace interleave

#define EXPECT_OK(expression) EXPECT_THAT(expression, ::interleave::IsOk())
#define ASSERT_OK(expression) ASSERT_THAT(expression, ::interleave::IsOk())

#define ASSERT_OK_AND_ASSIGN(lhs, expression) \
  INTERLEAVE_ASSERT_OK_AND_ASSIGN(            \
      INTERLEAVE_CONCAT(status_or_testing_, __LINE__), lhs, expression)

#define INTERLEAVE_ASSERT_OK_AND_ASSIGN(temporary, lhs, expression) \
  auto temporary = (expression);                                    \
  ASSERT_OK(temporary);                                             \
  lhs = *std::move(temporary)

#endif  // BASE_STATUS_TESTING_H_
