// GUARANTEED_NO_EVICT of TensorRT-LLM: a request is admitted once there are
// blocks for all it may generate, so nobody is ever preempted.  An iteration
// takes all decodes, and prompts share what is left of the tokens.

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
                   ParsePolicyOptions<NoEvictOptions>(text));
  RETURN_IF_ERROR(RequireAtLeast("chunk_unit", options.chunk_unit(), 0));
  RETURN_IF_ERROR(
      RequireAtLeast("max_context_tokens", options.max_context_tokens(), 0));
  ChunkedContext::Options context;
  context.reservation = Reservation::kCompletion;
  context.chunking = options.chunking();
  context.chunk_unit = options.chunk_unit();
  context.max_context_tokens = options.max_context_tokens();
  context.by_priority = options.order() == PRIORITY;
  return std::make_unique<ChunkedContext>(context);
}

REGISTER_POLICY("no_evict",
                "room for all a request may generate is reserved (TensorRT-LLM "
                "GUARANTEED_NO_EVICT)",
                &Create);

}  // namespace
}  // namespace interleave::scheduler
