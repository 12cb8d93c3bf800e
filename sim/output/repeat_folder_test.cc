#include "sim/output/repeat_folder.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

TEST(RepeatFolderTest, IsBelowWhatStandsForAll) {
  EXPECT_EQ(RepeatFolder(2), "repeat_2");
  EXPECT_EQ(WithoutRepeat(absl::StrCat("rate_7/orca/", RepeatFolder(12))),
            "rate_7/orca");
  EXPECT_EQ(WithoutRepeat(RepeatFolder(1)), "");
}

TEST(RepeatFolderTest, OthersStandForThemselves) {
  EXPECT_EQ(WithoutRepeat("rate_7/orca"), "rate_7/orca");
  EXPECT_EQ(WithoutRepeat("repeat_1/orca"), "repeat_1/orca");
  EXPECT_EQ(WithoutRepeat(""), "");
}

}  // namespace
}  // namespace interleave::sim
