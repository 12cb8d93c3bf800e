// One token budget for all, the scheduler of vLLM v1: there is no phase, every
// request simply has tokens left to compute.  Running requests are served first
// in order of admission, then waiting ones; long prompts are cut to what is
// left of the budget.
//
// Where blocks run short, the request admitted last (by priority: the least
// urgent one) is preempted and computed anew later, and nobody is admitted in
// that iteration.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "scheduler/engine_view.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/limits.h"
#include "scheduler/policies/parse_policy_options.h"
#include "scheduler/policies/policy_options.pb.h"
#include "scheduler/policies/room.h"
#include "scheduler/policy.h"
#include "scheduler/registry.h"
#include "scheduler/request.h"
#include "scheduler/request_spec.h"

namespace interleave::scheduler {
namespace {

class UnifiedBudget final : public Policy {
 public:
  static absl::StatusOr<std::unique_ptr<Policy>> Create(
      absl::string_view text) {
    ASSIGN_OR_RETURN(const auto options,
                     ParsePolicyOptions<UnifiedBudgetOptions>(text));
    RETURN_IF_ERROR(RequireAtLeast("long_prefill_token_threshold",
                                   options.long_prefill_token_threshold(), 0));
    RETURN_IF_ERROR(RequireFraction("watermark", options.watermark()));
    return std::make_unique<UnifiedBudget>(options);
  }

  explicit UnifiedBudget(const UnifiedBudgetOptions& options)
      : chunked_prefill_(options.chunked_prefill()),
        threshold_(options.long_prefill_token_threshold()),
        by_priority_(options.order() == PRIORITY),
        full_prompt_must_fit_(options.full_prompt_must_fit()),
        watermark_(options.watermark()) {}

  void Plan(const EngineView& view, IterationPlan& plan) override {
    Room room(view);
    int64_t budget = view.limits().max_num_batched_tokens;
    if (!PlanRunningAtOnce(view, plan, room, budget)) {
      PlanRunningInOrder(view, plan, room, budget);
      if (!plan.preemptions().empty()) return;
    }
    AdmitWaiting(view, plan, room, budget);
    if (plan.decode_all() && plan.pieces().empty() &&
        plan.rejections().empty() && view.prefilling().empty()) {
      plan.set_repeat(PromiseFor(view, room, budget));
    }
  }

  int64_t WaitingKey(const RequestSpec& spec) const override {
    return by_priority_ ? spec.priority : 0;
  }

  int64_t TokenBudget(const Limits& limits) const override {
    // A preempted request that has grown beyond the budget runs alone.
    return chunked_prefill_
               ? limits.max_num_batched_tokens
               : std::max(limits.max_num_batched_tokens, limits.max_model_len);
  }

 private:
  struct Scheduled {
    const Request* request;
    int64_t tokens;
    int64_t blocks;
  };

  // Tokens of a running request, budget aside.
  int64_t Wanted(const Request& request) const {
    const int64_t tokens = request.remaining();
    return threshold_ > 0 ? std::min(tokens, threshold_) : tokens;
  }

  // The usual case, in O(prefilling): blocks suffice for all, and either the
  // budget does too or the prompts stand behind all decodes.  False, and
  // nothing done, elsewhere.
  bool PlanRunningAtOnce(const EngineView& view, IterationPlan& plan,
                         Room& room, int64_t& budget) const {
    const int64_t decodes = view.num_decoding();
    int64_t need = view.DecodeAllNeed();
    if (decodes > budget || need > room.blocks) return false;
    int64_t left = budget - decodes;
    bool cut = false;
    for (const Request& request : view.prefilling()) {
      const int64_t wanted = Wanted(request);
      const int64_t tokens = std::min(wanted, left);
      cut |= tokens < wanted;
      left -= tokens;
      if (tokens > 0) need += view.GrowthNeed(request, tokens);
      if (need > room.blocks) return false;
    }
    if (cut && !PromptsStandLast(view)) return false;
    plan.DecodeAll();
    left = budget - decodes;
    for (const Request& request : view.prefilling()) {
      const int64_t tokens = std::min(Wanted(request), left);
      if (tokens == 0) break;
      plan.Run(request, static_cast<int32_t>(tokens));
      left -= tokens;
    }
    budget = left;
    room.blocks -= need;
    return true;
  }

  static bool PromptsStandLast(const EngineView& view) {
    const Request* request = view.running().back();
    for (int64_t i = view.prefilling().size(); i > 0; --i) {
      if (request->phase() != Phase::kPrefill) return false;
      request = RequestQueue::Previous(*request);
    }
    return true;
  }

  // The general case, in O(running).
  void PlanRunningInOrder(const EngineView& view, IterationPlan& plan,
                          Room& room, int64_t& budget) {
    scheduled_.clear();
    preempted_.clear();
    for (const Request& request : view.running()) {
      if (budget == 0) break;
      if (IsPreempted(request)) continue;
      if (!Schedule(view, request, room, budget)) break;
    }
    for (const Request* request : preempted_) plan.Preempt(*request);
    if (room.blocks < 0) return;  // See Schedule.
    int64_t decodes = 0;
    for (const Scheduled& s : scheduled_) {
      decodes += s.request->phase() == Phase::kDecode ? 1 : 0;
    }
    const bool all = decodes == view.num_decoding() - PreemptedDecodes();
    if (all) plan.DecodeAll();
    for (const Scheduled& s : scheduled_) {
      if (all && s.request->phase() == Phase::kDecode) continue;
      plan.Run(*s.request, static_cast<int32_t>(s.tokens));
    }
  }

  bool IsPreempted(const Request& request) const {
    return std::find(preempted_.begin(), preempted_.end(), &request) !=
           preempted_.end();
  }

  int64_t PreemptedDecodes() const {
    return std::count_if(preempted_.begin(), preempted_.end(),
                         [](const Request* request) {
                           return request->phase() == Phase::kDecode;
                         });
  }

  // Schedules a running request, preempting others until its blocks are free.
  // False when it had to be preempted itself, or when it is the only one left:
  // blocks that the preempted share are known to be free once they are gone, so
  // the plan then only preempts (room.blocks < 0) and the policy is asked
  // again.
  bool Schedule(const EngineView& view, const Request& request, Room& room,
                int64_t& budget) {
    // A victim that has been scheduled gives its tokens back, but not to the
    // request that it makes room for.
    const int64_t tokens = std::min(Wanted(request), budget);
    const int64_t blocks = view.GrowthNeed(request, tokens);
    while (blocks > room.blocks) {
      if (static_cast<int64_t>(preempted_.size()) + 1 == view.num_running()) {
        room.blocks = -1;
        return false;
      }
      const Request* victim = ChooseVictim(view);
      preempted_.push_back(victim);
      room.blocks += view.BlocksFreedBy(*victim);
      Unschedule(*victim, room, budget);
      if (victim == &request) return false;
    }
    room.blocks -= blocks;
    budget -= tokens;
    scheduled_.push_back({&request, tokens, blocks});
    return true;
  }

  void Unschedule(const Request& victim, Room& room, int64_t& budget) {
    const auto it =
        std::find_if(scheduled_.begin(), scheduled_.end(),
                     [&](const Scheduled& s) { return s.request == &victim; });
    if (it == scheduled_.end()) return;
    room.blocks += it->blocks;
    budget += it->tokens;
    scheduled_.erase(it);
  }

  const Request* ChooseVictim(const EngineView& view) const {
    if (!by_priority_) {
      const Request* last = view.running().back();
      for (size_t i = 0; i < preempted_.size(); ++i) {
        last = RequestQueue::Previous(*last);
      }
      return last;
    }
    const Request* worst = nullptr;
    for (const Request& request : view.running()) {
      if (IsPreempted(request)) continue;
      if (worst == nullptr || MoreUrgent(*worst, request)) worst = &request;
    }
    return worst;
  }

  static bool MoreUrgent(const Request& a, const Request& b) {
    return a.spec().priority != b.spec().priority
               ? a.spec().priority < b.spec().priority
               : a.id() < b.id();
  }

  void AdmitWaiting(const EngineView& view, IterationPlan& plan, Room& room,
                    int64_t& budget) const {
    if (room.seqs <= 0) return;
    for (const Request& request : view.waiting()) {
      if (budget == 0) return;
      int64_t tokens = view.TokensToCompute(request);
      if (threshold_ > 0) tokens = std::min(tokens, threshold_);
      if (!chunked_prefill_ && tokens > budget) {
        if (!RunAloneOrReject(view, request, plan, tokens)) return;
        if (!plan.rejections().empty()) return;
      } else {
        tokens = std::min(tokens, budget);
      }
      if (!TryAdmit(view, request, tokens, room)) return;
      plan.Run(request, static_cast<int32_t>(tokens));
      budget -= std::min(tokens, budget);
    }
  }

  // Of a prompt that exceeds what is left of the budget and may not be cut.
  // Returns whether to go on with it.
  static bool RunAloneOrReject(const EngineView& view, const Request& request,
                               IterationPlan& plan, int64_t tokens) {
    const int64_t budget = view.limits().max_num_batched_tokens;
    if (tokens <= budget) return false;
    if (request.preemptions() > 0) {
      return view.num_running() == 0 && plan.pieces().empty();
    }
    plan.Reject(request,
                absl::StrCat("exceeds_max_num_batched_tokens: ", tokens,
                             " prompt tokens, which may not be cut, and "
                             "max_num_batched_tokens is ",
                             budget));
    return true;
  }

  bool TryAdmit(const EngineView& view, const Request& request, int64_t tokens,
                Room& room) const {
    const int64_t watermark = WatermarkBlocks(view, watermark_);
    if (full_prompt_must_fit_) {
      Room whole = room;
      if (!whole.TryAdmit(view, request, tokens, Reservation::kPrompt,
                          watermark)) {
        return false;
      }
    }
    return room.TryAdmit(view, request, tokens, Reservation::kChunk, watermark);
  }

  Repeat PromiseFor(const EngineView& view, const Room& room,
                    int64_t budget) const {
    if (room.seqs <= 0 || budget == 0) return Repeat::kThroughArrivals;
    // One that arrives may be more urgent than the head that does not fit.
    return view.num_waiting() > 0 && !by_priority_ ? Repeat::kThroughArrivals
                                                   : Repeat::kUntilArrival;
  }

  const bool chunked_prefill_;
  const int64_t threshold_;
  const bool by_priority_;
  const bool full_prompt_must_fit_;
  const double watermark_;
  // Of the call in progress; members to keep their memory.
  std::vector<Scheduled> scheduled_;
  std::vector<const Request*> preempted_;
};

REGISTER_POLICY("unified_budget",
                "running requests, then waiting ones, share one token budget "
                "(vLLM v1)",
                &UnifiedBudget::Create);

}  // namespace
}  // namespace interleave::scheduler
