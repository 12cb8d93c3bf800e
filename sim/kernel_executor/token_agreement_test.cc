#include "sim/kernel_executor/token_agreement.h"

#include <string>

#include "absl/status/status.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

using ::testing::HasSubstr;

constexpr char kHeader[] = "request_id,index,token,logit_gap\n";

TEST(CompareTokensTest, CountsUpToTheFirstDifference) {
  const std::string a = std::string(kHeader) +
                        "1,0,5,0.5\n1,1,6,0.25\n1,2,7,1\n"
                        "0,0,9,1\n0,1,8,0.125\n"
                        "2,0,3,1\n2,1,3,0.0625\n2,2,4,1\n"
                        "7,0,1,1\n";
  const std::string b = std::string(kHeader) +
                        "0,0,9,1\n0,1,8,0.5\n"
                        "1,0,5,0.5\n1,1,4,0.125\n1,2,7,1\n"
                        "2,0,3,1\n2,1,2,0.125\n2,2,4,1\n";
  ASSERT_OK_AND_ASSIGN(const TokenAgreement agreement,
                       CompareTokens(a, "a", b, "b"));
  EXPECT_EQ(agreement.requests, 3);
  EXPECT_EQ(agreement.same, 1);
  EXPECT_EQ(agreement.tokens, 8);
  EXPECT_EQ(agreement.tokens_before_difference, 4);
  EXPECT_EQ(agreement.mean_gap, (0.25 + 0.125) / 2);
  EXPECT_EQ(agreement.largest_gap, 0.25);
}

TEST(CompareTokensTest, SaysWhatIsWrongWithAFile) {
  const std::string good = std::string(kHeader) + "1,0,5,0.5\n";
  EXPECT_THAT(CompareTokens(good, "a.csv", "request_id,token\n", "b.csv"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("b.csv")));
  EXPECT_THAT(
      CompareTokens(std::string(kHeader) + "1,1,5,0.5\n", "a.csv", good, "b"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a.csv")));
  EXPECT_THAT(
      CompareTokens(good, "a.csv", std::string(kHeader) + "2,0,5,1\n", "b.csv"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("no request in common")));
}

}  // namespace
}  // namespace interleave::sim
