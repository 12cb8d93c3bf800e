// Prefill first, the scheduler of vLLM v0 (Kwon et al., SOSP 2023): while any
// waiting request can be admitted, an iteration computes prompts and nothing
// else; otherwise all decodes.  First tokens come early, and the decodes stall
// for the length of the prompts.
//
// When blocks run short, the request admitted last is preempted.  While anybody
// is swapped out, no prompt is taken.

#include <algorithm>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
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
#include "scheduler/request.h"

namespace interleave::scheduler {
namespace {

class PrefillFirst final : public Policy {
 public:
  static absl::StatusOr<std::unique_ptr<Policy>> Create(
      absl::string_view text) {
    ASSIGN_OR_RETURN(const auto options,
                     ParsePolicyOptions<PrefillFirstOptions>(text));
    RETURN_IF_ERROR(
        RequireAtLeast("max_prefill_tokens", options.max_prefill_tokens(), 0));
    RETURN_IF_ERROR(RequireAtLeast("chunk_tokens", options.chunk_tokens(), 0));
    RETURN_IF_ERROR(RequireFraction("watermark", options.watermark()));
    return std::make_unique<PrefillFirst>(options);
  }

  explicit PrefillFirst(const PrefillFirstOptions& options)
      : max_prefill_tokens_(options.max_prefill_tokens()),
        chunk_tokens_(options.chunk_tokens()),
        watermark_(options.watermark()),
        mode_(options.preemption() == PrefillFirstOptions::SWAP
                  ? PreemptMode::kSwap
                  : PreemptMode::kRecompute) {}

  void Plan(const EngineView& view, IterationPlan& plan) override {
    Room room(view);
    if (view.swapped().empty() && PlanPrefills(view, plan, room)) return;
    if (DecodeAllOrPreemptLast(view, plan, room, mode_).requests > 0) return;
    SwapIn(view, plan, room);
    if (plan.pieces().empty()) {
      plan.set_repeat(RepeatOfFirstComeFirstServed(view, room));
    }
  }

  int64_t TokenBudget(const Limits& limits) const override {
    return std::max<int64_t>(
        {PrefillBudget(limits), limits.max_num_seqs, limits.max_model_len});
  }

 private:
  int64_t PrefillBudget(const Limits& limits) const {
    if (chunk_tokens_ > 0) return chunk_tokens_;
    if (max_prefill_tokens_ > 0) return max_prefill_tokens_;
    return std::max(limits.max_num_batched_tokens, limits.max_model_len);
  }

  // Returns whether anything is planned.
  bool PlanPrefills(const EngineView& view, IterationPlan& plan, Room& room) {
    if (view.num_waiting() == 0 && view.prefilling().empty()) return false;
    PrefillTurn turn;
    turn.budget = PrefillBudget(view.limits());
    turn.cut = chunk_tokens_ > 0;
    turn.watermark = WatermarkBlocks(view, watermark_);
    if (room.seqs <= 0) return turn.Plan(view, plan, room) > 0;
    if (!turn.cut && RejectTooLong(view, turn.budget, plan)) return true;
    return turn.Plan(view, plan, room) > 0 || ResumeTooLong(view, plan, room);
  }

  // Prompts that exceed the budget of an iteration would block the queue for
  // ever.  Returns whether there is one at its head.
  bool RejectTooLong(const EngineView& view, int64_t budget,
                     IterationPlan& plan) const {
    const Request* head = view.waiting().front();
    if (head == nullptr || head->preemptions() > 0 ||
        head->spec().prompt_tokens <= budget) {
      return false;
    }
    plan.Reject(
        *head,
        absl::StrCat("exceeds_max_prefill_tokens: ", head->spec().prompt_tokens,
                     " prompt tokens, an iteration takes ", budget));
    return true;
  }

  // A preempted request may have grown beyond the budget: it is computed alone
  // once nobody else runs.
  bool ResumeTooLong(const EngineView& view, IterationPlan& plan, Room& room) {
    const Request* head = view.waiting().front();
    if (head == nullptr || !room.nothing_runs || !view.prefilling().empty()) {
      return false;
    }
    const int64_t tokens = view.TokensToCompute(*head);
    if (!room.TryAdmit(view, *head, tokens, Reservation::kPrompt, 0)) {
      return false;
    }
    plan.Run(*head, static_cast<int32_t>(tokens), Reservation::kPrompt);
    return true;
  }

  void SwapIn(const EngineView& view, IterationPlan& plan, Room& room) const {
    for (const Request& request : view.swapped()) {
      // Its next token may want one block more than it holds.
      const int64_t need = view.SwapInNeed(request) + 1;
      const int64_t spare =
          room.nothing_runs ? 0 : WatermarkBlocks(view, watermark_);
      if (room.seqs <= 0 || need + spare > room.blocks) return;
      plan.SwapIn(request);
      room.blocks -= need;
      --room.seqs;
      room.nothing_runs = false;
    }
  }

  const int64_t max_prefill_tokens_;
  const int64_t chunk_tokens_;
  const double watermark_;
  const PreemptMode mode_;
};

REGISTER_POLICY("prefill_first",
                "waiting prompts first, then all decodes (vLLM v0)",
                &PrefillFirst::Create);

}  // namespace
}  // namespace interleave::scheduler
