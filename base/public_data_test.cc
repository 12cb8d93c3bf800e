#include "base/public_data.h"

#include <cstdlib>

#include "gtest/gtest.h"

namespace interleave {
namespace {

TEST(PublicDataFolderTest, IsWhatTheEnvironmentNames) {
  ASSERT_EQ(setenv("INTERLEAVE_DATA", "/somewhere", /*overwrite=*/1), 0);
  EXPECT_EQ(PublicDataFolder(), "/somewhere");
  ASSERT_EQ(setenv("INTERLEAVE_DATA", "", /*overwrite=*/1), 0);
  EXPECT_EQ(PublicDataFolder(), "");
  ASSERT_EQ(unsetenv("INTERLEAVE_DATA"), 0);
  EXPECT_EQ(PublicDataFolder(), "");
}

}  // namespace
}  // namespace interleave
