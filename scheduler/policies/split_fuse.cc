// Dynamic SplitFuse of DeepSpeed-FastGen (Holmes et al., 2024): every iteration
// takes the same number of tokens, all decodes first, the rest filled up from
// prompts in order of arrival, long ones cut and short ones fused.  A prompt is
// begun only if blocks for the whole of it are free.
//
// A decode that finds no block waits; when nobody can run, the request admitted
// last gives up its own and is computed anew.

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "scheduler/engine_view.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/limits.h"
#include "scheduler/policies/decode_all.h"
#include "scheduler/policies/parse_policy_options.h"
#include "scheduler/policies/policy_options.pb.h"
#include "scheduler/policies/prefill_turn.h"
#include "scheduler/policies/room.h"
#include "scheduler/policy.h"
#include "scheduler/registry.h"

namespace interleave::scheduler {
namespace {

class SplitFuse final : public Policy {
 public:
  static absl::StatusOr<std::unique_ptr<Policy>> Create(
      absl::string_view text) {
    ASSIGN_OR_RETURN(const auto options,
                     ParsePolicyOptions<SplitFuseOptions>(text));
    RETURN_IF_ERROR(
        RequireAtLeast("budget_tokens", options.budget_tokens(), 0));
    return std::make_unique<SplitFuse>(options);
  }

  explicit SplitFuse(const SplitFuseOptions& options)
      : budget_tokens_(options.budget_tokens()) {}

  void Plan(const EngineView& view, IterationPlan& plan) override {
    Room room(view);
    const int64_t budget = TokenBudget(view.limits());
    const int64_t decodes = DecodeWhatFits(view, budget, plan, room);
    const PrefillTurn turn = {
        .budget = budget - decodes, .cut = true, .watermark = 0};
    const int64_t prompts = turn.Plan(view, plan, room);
    if (decodes + prompts == 0 && view.num_running() > 0) {
      plan.Preempt(*view.running().back());
    } else if (plan.decode_all() && plan.pieces().empty()) {
      plan.set_repeat(RepeatOfFirstComeFirstServed(view, room));
    }
  }

  int64_t TokenBudget(const Limits& limits) const override {
    return budget_tokens_ > 0 ? budget_tokens_ : limits.max_num_batched_tokens;
  }

 private:
  const int64_t budget_tokens_;
};

REGISTER_POLICY("split_fuse",
                "a constant number of tokens: decodes, then prompts cut or "
                "fused (DeepSpeed-FastGen)",
                &SplitFuse::Create);

}  // namespace
}  // namespace interleave::scheduler
