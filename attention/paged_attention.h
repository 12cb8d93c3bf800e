// Attention over contiguous and paged keys and values, for continuous batching.
//
//   ASSIGN_OR_RETURN(Plan plan, Plan::Create(config));    // once
//   RETURN_IF_ERROR(plan.Update(batch, stream));          // once an iteration
//   for (layers) {
//     RETURN_IF_ERROR(MixedForward(plan, params, stream));  // any mix of rows
//   }
//
// Calls enqueue work on the stream and return; all of them, Update too, may be
// captured into a CUDA graph, and a replay reads the lengths that the device
// memory holds by then. Every argument is checked before anything is enqueued;
// a refused call enqueues nothing and its Status names the argument. Errors of
// a launch come back as Status too.
//
// A plan serves one stream at a time: its schedule and its partial results are
// shared by the launches that use it.

#ifndef ATTENTION_PAGED_ATTENTION_H_
#define ATTENTION_PAGED_ATTENTION_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/params.h"
#include "cuda_runtime_api.h"

namespace interleave::attention {

class PlanState;  // plan_state.h: what the kernels' launchers see

// An iteration's schedule: which thread block computes which tile. Its memory
// depends on the maxima of the config alone.
class Plan {
 public:
  // Device memory that a plan of this config works in.
  static absl::StatusOr<int64_t> WorkspaceBytes(const PlanConfig& config);

  // A plan that works in `workspace` (device memory of at least WorkspaceBytes,
  // 256-byte aligned, not owned), which is cleared on `stream`.
  static absl::StatusOr<Plan> Create(const PlanConfig& config, void* workspace,
                                     int64_t workspace_bytes,
                                     cudaStream_t stream);

  // A plan that allocates and owns its workspace.
  static absl::StatusOr<Plan> Create(const PlanConfig& config);

  Plan(Plan&&);
  Plan& operator=(Plan&&);
  ~Plan();

  // Computes the schedule of a batch from its lengths on the device. The device
  // arrays of `batch` are read by this call alone.
  absl::Status Update(const BatchMetadata& batch, cudaStream_t stream);

  const PlanConfig& config() const;
  PlanState& state() const { return *state_; }

 private:
  explicit Plan(std::unique_ptr<PlanState> state);

  std::unique_ptr<PlanState> state_;
};

// Path 1: batches of any query lengths over contiguous keys and values.
absl::Status VarlenForward(const Plan& plan, const VarlenParams& params,
                           cudaStream_t stream);

// Path 2: one query token a sequence over the paged cache, whose own key and
// value are appended first when the batch appends. The plan was updated with
// cu_seqlens_q null.
absl::Status DecodeForward(const Plan& plan, const PagedParams& params,
                           cudaStream_t stream);

// Path 3: any mix of prompt chunks and decodes over the paged cache, appended
// to in place first.
absl::Status MixedForward(const Plan& plan, const PagedParams& params,
                          cudaStream_t stream);

// The founding way to a cache: scatter what is new, gather everything. `device`
// is the one that owns the memory.
absl::Status CacheScatter(const ScatterParams& params, int32_t device,
                          cudaStream_t stream);
absl::Status CacheGather(const GatherParams& params, int32_t device,
                         cudaStream_t stream);

// out = softmax-weighted union of two partial attentions. An empty side
// (-infinity) has no weight; two empty sides give zeros and -infinity.
absl::Status MergeStates(const MergeParams& params, int32_t device,
                         cudaStream_t stream);

}  // namespace interleave::attention

#endif  // ATTENTION_PAGED_ATTENTION_H_
