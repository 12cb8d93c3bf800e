// k prefill iterations, then d decode iterations, and so on, while there is
// work of both kinds: a two-sided guarantee, for no decode waits longer than k
// iterations and no prompt longer than d.  With k = d = 1 the two alternate.
//
// When blocks run short, the request admitted last is preempted.

#include <algorithm>
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

class Interleave final : public Policy {
 public:
  static absl::StatusOr<std::unique_ptr<Policy>> Create(
      absl::string_view text) {
    ASSIGN_OR_RETURN(const auto options,
                     ParsePolicyOptions<InterleaveOptions>(text));
    RETURN_IF_ERROR(
        RequireAtLeast("prefill_iterations", options.prefill_iterations(), 0));
    RETURN_IF_ERROR(
        RequireAtLeast("decode_iterations", options.decode_iterations(), 1));
    RETURN_IF_ERROR(RequireAtLeast("chunk_tokens", options.chunk_tokens(), 0));
    RETURN_IF_ERROR(RequireFraction("watermark", options.watermark()));
    return std::make_unique<Interleave>(options);
  }

  explicit Interleave(const InterleaveOptions& options)
      : prefill_iterations_(options.prefill_iterations()),
        decode_iterations_(options.decode_iterations()),
        chunk_tokens_(options.chunk_tokens()),
        watermark_(options.watermark()) {}

  void Plan(const EngineView& view, IterationPlan& plan) override {
    Room room(view);
    const bool somebody_decodes = view.num_decoding() > 0;
    if (decodes_left_ > 0 && somebody_decodes) {
      --decodes_left_;
      DecodeAllOrPreemptLast(view, plan, room);
      return;
    }
    decodes_left_ = 0;
    if (PlanPrefills(view, plan, room)) {
      if (somebody_decodes) CountPrefill();
      return;
    }
    // No prompt can be computed; the next one begins a new round.  Nothing is
    // counted, so the plan may be repeated.
    prefills_ = 0;
    if (DecodeAllOrPreemptLast(view, plan, room).requests == 0) {
      plan.set_repeat(RepeatOfFirstComeFirstServed(view, room));
    }
  }

  int64_t TokenBudget(const Limits& limits) const override {
    return std::max<int64_t>(Chunk(limits), limits.max_num_seqs);
  }

 private:
  int64_t Chunk(const Limits& limits) const {
    return chunk_tokens_ > 0 ? chunk_tokens_ : limits.max_num_batched_tokens;
  }

  bool PlanPrefills(const EngineView& view, IterationPlan& plan,
                    Room& room) const {
    const PrefillTurn turn = {.budget = Chunk(view.limits()),
                              .cut = true,
                              .watermark = WatermarkBlocks(view, watermark_)};
    return turn.Plan(view, plan, room) > 0;
  }

  void CountPrefill() {
    if (++prefills_ != prefill_iterations_) return;
    prefills_ = 0;
    decodes_left_ = decode_iterations_;
  }

  const int64_t prefill_iterations_;
  const int64_t decode_iterations_;
  const int64_t chunk_tokens_;
  const double watermark_;
  // Prefill iterations that the decodes have waited for so far.
  int64_t prefills_ = 0;
  // Decode iterations that are due before the next prefill.
  int64_t decodes_left_ = 0;
};

REGISTER_POLICY("interleave",
                "k prefill iterations, d decode iterations, in turn",
                &Interleave::Create);

}  // namespace
}  // namespace interleave::scheduler
