// A program that names no policy has this one when it is built with
// --//scheduler:extra_policies.

#include <cstdint>
#include <vector>

#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/conformance/engine_driver.h"
#include "scheduler/request_spec.h"

namespace interleave::scheduler {
namespace {

using ::testing::ElementsAre;

TEST(ExtraPoliciesTest, PolicyOfAnotherPackageRuns) {
  EngineDriver::Setup setup;
  ASSERT_OK_AND_ASSIGN(
      auto driver, EngineDriver::Create(setup, "shortest_prompt_first", ""));
  int64_t id = 0;
  for (const int32_t prompt : {30, 10, 20}) {
    RequestSpec spec;
    spec.id = id++;
    spec.prompt_tokens = prompt;
    spec.output_tokens = 2;
    ASSERT_TRUE(driver->Submit(spec));
  }
  ASSERT_OK_AND_ASSIGN(const auto run, driver->RunToEnd());
  ASSERT_EQ(run.size(), 4);
  EXPECT_THAT(run[0].chunks, ElementsAre(EngineDriver::Chunk{1, 10}));
  EXPECT_THAT(run[1].chunks, ElementsAre(EngineDriver::Chunk{2, 20}));
  EXPECT_THAT(run[1].decodes, ElementsAre(1));
  EXPECT_THAT(run[2].chunks, ElementsAre(EngineDriver::Chunk{0, 30}));
  EXPECT_THAT(run[3].finished, ElementsAre(0));
}

}  // namespace
}  // namespace interleave::scheduler
