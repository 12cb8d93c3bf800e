// Stall-free batching in which prompts advance together: what the decodes leave
// of the budget is given to the prompts a unit each, round after round (the
// EQUAL_PROGRESS chunking of TensorRT-LLM).  Short prompts need not wait for
// the end of a long one.

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/policies/chunked_context.h"
#include "scheduler/policies/parse_policy_options.h"
#include "scheduler/policies/policy_options.pb.h"
#include "scheduler/policy.h"
#include "scheduler/registry.h"

namespace interleave::scheduler {
namespace {

absl::StatusOr<std::unique_ptr<Policy>> Create(absl::string_view text) {
  ASSIGN_OR_RETURN(const auto options,
                   ParsePolicyOptions<EqualProgressOptions>(text));
  RETURN_IF_ERROR(RequireAtLeast("chunk_unit", options.chunk_unit(), 0));
  RETURN_IF_ERROR(RequireFraction("watermark", options.watermark()));
  ChunkedContext::Options context;
  context.reservation = Reservation::kPrompt;
  context.watermark = options.watermark();
  context.chunking = EQUAL_PROGRESS;
  context.chunk_unit = options.chunk_unit();
  return std::make_unique<ChunkedContext>(context);
}

REGISTER_POLICY("equal_progress",
                "all decodes, then all prompts a unit in turn", &Create);

}  // namespace
}  // namespace interleave::scheduler
