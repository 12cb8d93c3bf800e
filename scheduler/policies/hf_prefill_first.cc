// Prefill first, of Hugging Face transformers: prompts under way, then decodes,
// then waiting requests.  A long prompt holds up all decodes while its chunks
// fill the budget.

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
  ASSIGN_OR_RETURN(const auto options,
                   ParsePolicyOptions<HfPrefillFirstOptions>(text));
  RETURN_IF_ERROR(RequireAtLeast("max_overtaken", options.max_overtaken(), 0));
  HfScheduler::Options scheduler;
  scheduler.prompts_first = true;
  scheduler.evict_shortest = options.victim() == HfFifoOptions::SHORTEST;
  scheduler.max_overtaken = options.max_overtaken();
  return std::make_unique<HfScheduler>(scheduler);
}

REGISTER_POLICY("hf_prefill_first",
                "prompts under way, decodes, waiting requests (transformers)",
                &Create);

}  // namespace
}  // namespace interleave::scheduler
