#include "scheduler/policies/parse_policy_options.h"

#include "absl/status/status.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/policies/policy_options.pb.h"

namespace interleave::scheduler {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ParsePolicyOptionsTest, NothingMeansDefaults) {
  ASSERT_OK_AND_ASSIGN(const auto options,
                       ParsePolicyOptions<StallFreeOptions>(""));
  EXPECT_EQ(options.chunk_tokens(), 0);
  EXPECT_EQ(options.watermark(), 0.01);
}

TEST(ParsePolicyOptionsTest, ReadsFields) {
  ASSERT_OK_AND_ASSIGN(const auto options,
                       ParsePolicyOptions<UnifiedBudgetOptions>(
                           "order: PRIORITY, watermark: 0.05 "
                           "long_prefill_token_threshold: 256"));
  EXPECT_EQ(options.order(), PRIORITY);
  EXPECT_EQ(options.watermark(), 0.05);
  EXPECT_EQ(options.long_prefill_token_threshold(), 256);
}

TEST(ParsePolicyOptionsTest, UnknownFieldIsNamedAndKnownOnesAreListed) {
  EXPECT_THAT(ParsePolicyOptions<StaticBatchingOptions>("batch: 3"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("line 1"), HasSubstr("\"batch\""),
                             HasSubstr("known are: batch_size (int32), "
                                       "reserve_max_model_len (bool)"))));
}

TEST(ParsePolicyOptionsTest, WrongValueIsNamed) {
  EXPECT_THAT(ParsePolicyOptions<StallFreeOptions>("\nchunk_tokens: many"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("line 2"), HasSubstr("many"))));
  EXPECT_THAT(ParsePolicyOptions<UnifiedBudgetOptions>("order: RANDOM"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("RANDOM"),
                             HasSubstr("order (ARRIVAL|PRIORITY)"))));
}

TEST(ParsePolicyOptionsTest, RepeatedFieldIsRefused) {
  EXPECT_THAT(
      ParsePolicyOptions<StallFreeOptions>("chunk_tokens: 1 chunk_tokens: 2"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("chunk_tokens")));
}

TEST(ParsePolicyOptionsTest, NoOptions) {
  EXPECT_OK(RequireNoOptions(" \n"));
  EXPECT_THAT(
      RequireNoOptions("chunk_tokens: 1"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("chunk_tokens")));
}

TEST(ParsePolicyOptionsTest, RangesNameTheField) {
  EXPECT_OK(RequireAtLeast("chunk_tokens", 1, 1));
  EXPECT_THAT(RequireAtLeast("chunk_tokens", -1, 0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "policy option chunk_tokens is -1; it must be at least "
                       "0"));
  EXPECT_OK(RequireFraction("watermark", 0));
  EXPECT_THAT(RequireFraction("watermark", 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("watermark is 1;")));
  EXPECT_THAT(RequireFraction("watermark", -0.5),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace interleave::scheduler
