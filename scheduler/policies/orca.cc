// Iteration-level scheduling of Orca (Yu et al., OSDI 2022): every iteration
// takes all running requests, one token of each decode, and admits requests in
// order of arrival while there is room for all they may generate.  Prompts are
// computed whole beside the decodes, which wait for them.  Nobody is preempted.

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "scheduler/engine_view.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/limits.h"
#include "scheduler/policies/parse_policy_options.h"
#include "scheduler/policies/policy_options.pb.h"
#include "scheduler/policies/reserve_to_completion.h"
#include "scheduler/policies/room.h"
#include "scheduler/policy.h"
#include "scheduler/registry.h"

namespace interleave::scheduler {
namespace {

class Orca final : public Policy {
 public:
  static absl::StatusOr<std::unique_ptr<Policy>> Create(
      absl::string_view text) {
    ASSIGN_OR_RETURN(const auto options, ParsePolicyOptions<OrcaOptions>(text));
    return std::make_unique<Orca>(options);
  }

  explicit Orca(const OrcaOptions& options)
      : reserve_max_model_len_(options.reserve_max_model_len()) {}

  void Plan(const EngineView& view, IterationPlan& plan) override {
    // All that run have their blocks.
    Room room(view);
    plan.DecodeAll();
    AdmitWhole(view, MaxRunning(view, reserve_max_model_len_), plan, room);
    if (plan.pieces().empty()) {
      plan.set_repeat(RepeatOfFirstComeFirstServed(view, room));
    }
  }

  int64_t TokenBudget(const Limits&) const override { return kNoTokenBudget; }

 private:
  const bool reserve_max_model_len_;
};

REGISTER_POLICY("orca",
                "whole prompts join the decodes, room for all they may "
                "generate is reserved (Orca)",
                &Orca::Create);

}  // namespace
}  // namespace interleave::scheduler
