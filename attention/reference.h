// Attention on the CPU, in double: what every kernel is held against, and what
// runs where there is no GPU. The structs are those of the kernels; their
// pointers are to host memory here.

#ifndef ATTENTION_REFERENCE_H_
#define ATTENTION_REFERENCE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/params.h"

namespace interleave::attention {

// bf16 and fp16 bits to double and, rounding to nearest even, back.
double ToDouble(DataType type, uint16_t bits);
uint16_t FromDouble(DataType type, double value);

// Dense results: out [total_q, num_heads, head_dim], lse [num_heads, total_q].
// `owned[t]` says whether a sequence owns row t; rows that none owns hold zeros
// here and are left alone by the kernels.
struct ReferenceOutput {
  std::vector<double> out;
  std::vector<double> lse;
  std::vector<bool> owned;
};

// The arguments are validated as the kernels' are. params.out and params.lse
// are not written (but must be valid).
absl::StatusOr<ReferenceOutput> ReferenceVarlenForward(
    const PlanConfig& config, const BatchMetadata& batch,
    const VarlenParams& params);

// Appends into params.cache (rotating where asked), then attends.
absl::StatusOr<ReferenceOutput> ReferencePagedForward(
    const PlanConfig& config, const BatchMetadata& batch,
    const PagedParams& params);

absl::Status ReferenceScatter(const ScatterParams& params);
absl::Status ReferenceGather(const GatherParams& params);

// Writes params.out and params.lse.
absl::Status ReferenceMergeStates(const MergeParams& params);

}  // namespace interleave::attention

#endif  // ATTENTION_REFERENCE_H_
