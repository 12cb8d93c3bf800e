#include "base/command_line.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CommandLineTest : public ::testing::Test {
 protected:
  absl::Status Parse(std::vector<std::string> args) {
    return ParseFlags(flags_, args);
  }

  std::string rate_;
  bool fast_ = false;
  std::vector<std::string> set_;
  std::vector<Flag> flags_ = {
      StringFlag("rate", "X", "requests a second", &rate_),
      SwitchFlag("fast", "whether to hurry", &fast_),
      {"set", "FIELD=VALUE", "sets a field",
       [this](absl::string_view text) {
         if (text == "bad") return absl::InvalidArgumentError("not this one");
         set_.emplace_back(text);
         return absl::OkStatus();
       }},
  };
};

TEST_F(CommandLineTest, TakesEveryForm) {
  EXPECT_OK(Parse({"--rate=2", "--fast", "--set", "a=b", "--set=c=d"}));
  EXPECT_EQ(rate_, "2");
  EXPECT_TRUE(fast_);
  EXPECT_THAT(set_, ElementsAre("a=b", "c=d"));
  EXPECT_OK(Parse({"--nofast"}));
  EXPECT_FALSE(fast_);
  EXPECT_OK(Parse({"--fast=true"}));
  EXPECT_TRUE(fast_);
}

TEST_F(CommandLineTest, NamesTheClosestFlag) {
  EXPECT_THAT(Parse({"--rat=2"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("no flag --rat"), HasSubstr("--rate"))));
  EXPECT_THAT(Parse({"--zzzzzz"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("no flag --zzzzzz; --help lists all")));
  EXPECT_THAT(Parse({"--norate"}), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("no flag --norate")));
}

TEST_F(CommandLineTest, RefusesWhatIsNoFlag) {
  EXPECT_THAT(Parse({"trace.csv"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("\"trace.csv\" is no flag")));
  EXPECT_THAT(Parse({"--rate"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("--rate wants a value: --rate=X")));
  EXPECT_THAT(Parse({"--fast=maybe"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("--fast=maybe: it takes true or false")));
  EXPECT_THAT(Parse({"--set=bad"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("--set=bad: not this one")));
}

TEST(ExitStatusTest, TellsBadInputFromFailures) {
  EXPECT_EQ(ExitStatus(absl::OkStatus()), 0);
  EXPECT_EQ(ExitStatus(absl::InvalidArgumentError("")), 2);
  EXPECT_EQ(ExitStatus(absl::NotFoundError("")), 2);
  EXPECT_EQ(ExitStatus(absl::AlreadyExistsError("")), 2);
  EXPECT_EQ(ExitStatus(absl::CancelledError("")), 130);
  EXPECT_EQ(ExitStatus(absl::DataLossError("")), 1);
  EXPECT_EQ(ExitStatus(absl::FailedPreconditionError("")), 1);
}

TEST_F(CommandLineTest, HelpWrapsLines) {
  const std::vector<Flag> flags = {
      SwitchFlag("x",
                 "one two three four five six seven eight nine ten eleven "
                 "twelve thirteen fourteen",
                 &fast_)};
  EXPECT_EQ(FlagHelp(flags),
            "  --x\n"
            "      one two three four five six seven eight nine ten eleven "
            "twelve thirteen\n"
            "      fourteen\n");
}

}  // namespace
}  // namespace interleave
