// First in, first out, of Hugging Face transformers: decodes, then prompts
// under way, then waiting requests.  Prompts wait while fewer than a fifth of
// the blocks are free.

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "scheduler/policies/hf_scheduler.h"
#include "scheduler/policies/parse_policy_options.h"
#include "scheduler/policies/policy_options.pb.h"
#include "scheduler/policy.h"
#include "scheduler/registry.h"

namespace interleave::scheduler {
namespace {

absl::StatusOr<std::unique_ptr<Policy>> Create(absl::string_view text) {
  ASSIGN_OR_RETURN(const auto options, ParsePolicyOptions<HfFifoOptions>(text));
  RETURN_IF_ERROR(RequireAtLeast("max_overtaken", options.max_overtaken(), 0));
  RETURN_IF_ERROR(RequireFraction("safety_margin", options.safety_margin()));
  HfScheduler::Options scheduler;
  scheduler.prompts_first = false;
  scheduler.safety_margin = options.safety_margin();
  scheduler.evict_shortest = options.victim() == HfFifoOptions::SHORTEST;
  scheduler.max_overtaken = options.max_overtaken();
  return std::make_unique<HfScheduler>(scheduler);
}

REGISTER_POLICY("hf_fifo",
                "decodes, prompts under way, waiting requests, with a margin "
                "of free blocks (transformers)",
                &Create);

}  // namespace
}  // namespace interleave::scheduler
