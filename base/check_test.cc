#include "base/check.h"

#include "gtest/gtest.h"

namespace interleave {
namespace {

TEST(CheckTest, PassesWhenTrue) {
  CHECK(true);
  CHECK_EQ(1, 1);
  DCHECK_LT(1, 2);
}

TEST(CheckDeathTest, NamesTheCondition) {
  EXPECT_DEATH(CHECK(1 > 2), "Check failed: 1 > 2");
  EXPECT_DEATH(CHECK_GE(1, 2), "Check failed");
}

TEST(CheckTest, ReleaseBuildDoesNotEvaluateDcheck) {
  int evaluations = 0;
  DCHECK(++evaluations == 1);
#ifdef NDEBUG
  EXPECT_EQ(evaluations, 0);
#else
  EXPECT_EQ(evaluations, 1);
#endif
}

}  // namespace
}  // namespace interleave
