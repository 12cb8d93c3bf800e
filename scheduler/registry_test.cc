#include "scheduler/registry.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/engine_view.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/policy.h"

namespace interleave::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NullPolicy final : public Policy {
 public:
  void Plan(const EngineView& view, IterationPlan& plan) override {}
};

absl::StatusOr<std::unique_ptr<Policy>> CreateNull(absl::string_view options) {
  if (!options.empty()) return absl::InvalidArgumentError("it has no options");
  return std::make_unique<NullPolicy>();
}

REGISTER_POLICY("zebra", "registered first", &CreateNull);
REGISTER_POLICY("ant", "registered second", &CreateNull);

TEST(RegistryTest, CreatesByName) {
  EXPECT_OK(CreatePolicy("ant", ""));
  EXPECT_THAT(CreatePolicy("ant", "x: 1"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("it has no options")));
}

TEST(RegistryTest, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  EXPECT_THAT(CreatePolicy("Ant", ""),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("\"Ant\"; linked in are: ant, zebra")));
}

TEST(RegistryTest, ListsInOrderOfNames) {
  std::vector<std::string> names;
  for (const PolicyInfo& policy : RegisteredPolicies()) {
    names.push_back(policy.name);
  }
  EXPECT_THAT(names, ElementsAre("ant", "zebra"));
}

TEST(RegistryDeathTest, ANameIsTakenOnce) {
  EXPECT_DEATH(RegisterPolicy("ant", "again", &CreateNull), "one name");
}

}  // namespace
}  // namespace interleave::scheduler
