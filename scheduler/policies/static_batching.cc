// Static batching, as in FasterTransformer: a batch of requests is formed, its
// prompts are computed together, and it decodes until its last request has
// ended.  Only then the next batch is formed.  Nobody is stalled or preempted;
// requests that arrive wait for the slowest one of the batch.

#include <algorithm>
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

class StaticBatching final : public Policy {
 public:
  static absl::StatusOr<std::unique_ptr<Policy>> Create(
      absl::string_view text) {
    ASSIGN_OR_RETURN(const auto options,
                     ParsePolicyOptions<StaticBatchingOptions>(text));
    RETURN_IF_ERROR(RequireAtLeast("batch_size", options.batch_size(), 0));
    return std::make_unique<StaticBatching>(options);
  }

  explicit StaticBatching(const StaticBatchingOptions& options)
      : batch_size_(options.batch_size()),
        reserve_max_model_len_(options.reserve_max_model_len()) {}

  void Plan(const EngineView& view, IterationPlan& plan) override {
    if (view.num_running() > 0) {
      plan.DecodeAll();
      plan.set_repeat(Repeat::kThroughArrivals);
      return;
    }
    Room room(view);
    if (batch_size_ > 0) room.seqs = std::min(room.seqs, batch_size_);
    AdmitWhole(view, MaxRunning(view, reserve_max_model_len_), plan, room);
  }

  int64_t TokenBudget(const Limits&) const override { return kNoTokenBudget; }

 private:
  const int64_t batch_size_;
  const bool reserve_max_model_len_;
};

REGISTER_POLICY("static_batching",
                "a batch runs until its last request ends (FasterTransformer)",
                &StaticBatching::Create);

}  // namespace
}  // namespace interleave::scheduler
