#include "base/program.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include "base/file_testing.h"
#include "gtest/gtest.h"

namespace interleave {
namespace {

namespace fs = std::filesystem;

using ProgramTest = TempFolderTest;

TEST_F(ProgramTest, EntersTheUsersFolder) {
  const fs::path before = fs::current_path();
  unsetenv("BUILD_WORKING_DIRECTORY");
  EXPECT_TRUE(EnterUserFolder("tool"));
  EXPECT_EQ(fs::current_path(), before);

  setenv("BUILD_WORKING_DIRECTORY", root_.c_str(), 1);
  EXPECT_TRUE(EnterUserFolder("tool"));
  EXPECT_TRUE(fs::equivalent(fs::current_path(), root_));
  fs::current_path(before);
}

TEST_F(ProgramTest, SaysWhichFolderCannotBeEntered) {
  const std::string missing = Path("missing");
  setenv("BUILD_WORKING_DIRECTORY", missing.c_str(), 1);
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(EnterUserFolder("tool"));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "tool: cannot enter " + missing + "\n");
}

TEST_F(ProgramTest, TellsOfInterrupts) {
  const std::function<bool()> interrupted = CatchInterrupts();
  EXPECT_FALSE(interrupted());
  std::raise(SIGTERM);
  EXPECT_TRUE(interrupted());
}

}  // namespace
}  // namespace interleave
