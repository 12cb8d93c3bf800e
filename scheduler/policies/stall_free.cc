// Stall-free batching of Sarathi-Serve (Agrawal et al., OSDI 2024): every
// iteration takes all decodes, and prompts get what the chunk leaves: first
// those under way, then waiting ones in order of arrival while blocks for the
// whole prompt are free.  No decode ever waits for more than a chunk.
//
// The chunk is the same for all or shrinks while a prompt advances, since the
// attention of a late chunk costs more than that of an early one.

#include <algorithm>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "scheduler/engine_view.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/limits.h"
#include "scheduler/policies/decode_all.h"
#include "scheduler/policies/parse_policy_options.h"
#include "scheduler/policies/policy_options.pb.h"
#include "scheduler/policies/room.h"
#include "scheduler/policies/token_allocation.h"
#include "scheduler/policy.h"
#include "scheduler/registry.h"
#include "scheduler/request.h"

namespace interleave::scheduler {
namespace {

class StallFree final : public Policy {
 public:
  static absl::StatusOr<std::unique_ptr<Policy>> Create(
      absl::string_view text) {
    ASSIGN_OR_RETURN(const auto options,
                     ParsePolicyOptions<StallFreeOptions>(text));
    RETURN_IF_ERROR(RequireAtLeast("chunk_tokens", options.chunk_tokens(), 0));
    RETURN_IF_ERROR(RequireFraction("watermark", options.watermark()));
    RETURN_IF_ERROR(
        RequireAtLeast("shrink_stages", options.shrink_stages(), 0));
    if (options.shrink_stages() > 0) {
      const int64_t smallest = options.smallest_chunk_tokens();
      RETURN_IF_ERROR(RequireAtLeast("smallest_chunk_tokens", smallest,
                                     ShrinkingChunk::kUnit));
      RETURN_IF_ERROR(RequireAtLeast("largest_chunk_tokens",
                                     options.largest_chunk_tokens(), smallest));
      RETURN_IF_ERROR(RequireAtLeast("shrink_over_tokens",
                                     options.shrink_over_tokens(),
                                     options.shrink_stages()));
    }
    return std::make_unique<StallFree>(options);
  }

  explicit StallFree(const StallFreeOptions& options)
      : chunk_tokens_(options.chunk_tokens()), watermark_(options.watermark()) {
    if (options.shrink_stages() > 0) {
      shrinking_ = std::make_unique<ShrinkingChunk>(
          options.largest_chunk_tokens(), options.smallest_chunk_tokens(),
          options.shrink_stages(), options.shrink_over_tokens());
    }
  }

  void Plan(const EngineView& view, IterationPlan& plan) override {
    Room room(view);
    const Preempted preempted = DecodeAllOrPreemptLast(view, plan, room);
    int64_t used =
        view.num_decoding() - (preempted.requests - preempted.prefilling);
    const int64_t chunk = FixedChunk(view.limits());
    int64_t left = view.prefilling().size() - preempted.prefilling;
    for (const Request& request : view.prefilling()) {
      if (--left < 0) break;
      used += PlanChunk(view, request, Chunk(chunk, request.computed()) - used,
                        plan, room);
    }
    if (preempted.requests > 0) return;
    AdmitWaiting(view, chunk, used, plan, room);
    if (plan.pieces().empty()) {
      plan.set_repeat(RepeatOfFirstComeFirstServed(view, room));
    }
  }

  int64_t TokenBudget(const Limits& limits) const override {
    return std::max<int64_t>(limits.max_num_seqs,
                             Chunk(FixedChunk(limits), /*computed=*/0));
  }

 private:
  int64_t FixedChunk(const Limits& limits) const {
    return chunk_tokens_ > 0 ? chunk_tokens_ : limits.max_num_batched_tokens;
  }
  int64_t Chunk(int64_t fixed, int64_t computed) const {
    return shrinking_ == nullptr ? fixed : shrinking_->At(computed);
  }

  // Returns the tokens planned.
  static int64_t PlanChunk(const EngineView& view, const Request& request,
                           int64_t most, IterationPlan& plan, Room& room) {
    const int64_t tokens = std::min<int64_t>(request.remaining(), most);
    if (tokens <= 0 || !room.TryGrow(view, request, tokens)) return 0;
    plan.Run(request, static_cast<int32_t>(tokens));
    return tokens;
  }

  void AdmitWaiting(const EngineView& view, int64_t chunk, int64_t used,
                    IterationPlan& plan, Room& room) const {
    if (room.seqs <= 0) return;
    for (const Request& request : view.waiting()) {
      // Nothing is left, whatever the request has in the prefix cache.
      if (Chunk(chunk, 0) <= used) return;
      const int64_t most =
          Chunk(chunk,
                shrinking_ == nullptr ? 0 : view.PrefixHitTokens(request)) -
          used;
      const int64_t tokens = std::min(view.TokensToCompute(request), most);
      if (tokens <= 0 ||
          !room.TryAdmit(view, request, tokens, Reservation::kPrompt,
                         WatermarkBlocks(view, watermark_))) {
        return;
      }
      plan.Run(request, static_cast<int32_t>(tokens), Reservation::kPrompt);
      used += tokens;
    }
  }

  const int64_t chunk_tokens_;
  const double watermark_;
  // nullptr where all chunks are the same.
  std::unique_ptr<const ShrinkingChunk> shrinking_;
};

REGISTER_POLICY("stall_free",
                "all decodes, then a chunk of prompts beside them "
                "(Sarathi-Serve)",
                &StallFree::Create);

}  // namespace
}  // namespace interleave::scheduler
