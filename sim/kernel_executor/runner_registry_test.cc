#include "sim/kernel_executor/runner_registry.h"

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/kernel_executor/batch_runner.h"
#include "sim/kernel_executor/decoder_options.h"

namespace interleave::sim {
namespace {

using ::testing::HasSubstr;

TEST(RunnerRegistryTest, SaysThatThereIsNoneAndThenAsksTheOneThereIs) {
  EXPECT_THAT(CreateRunner(DecoderOptions()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("built without the CUDA toolkit")));
  RegisterRunner([](const DecoderOptions& options)
                     -> absl::StatusOr<std::unique_ptr<BatchRunner>> {
    return absl::ResourceExhaustedError("full");
  });
  EXPECT_THAT(CreateRunner(DecoderOptions()),
              StatusIs(absl::StatusCode::kResourceExhausted, "full"));
}

}  // namespace
}  // namespace interleave::sim
