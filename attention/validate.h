// Every argument of the attention API, checked before anything is launched. A
// refusal is InvalidArgument (or OutOfRange for values of host metadata) whose
// message starts with the argument's name.

#ifndef ATTENTION_VALIDATE_H_
#define ATTENTION_VALIDATE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "attention/params.h"

namespace interleave::attention {

// Says whether `pointer` is memory of the device; null: not checked.
using PointerInspector = absl::Status (*)(const void* pointer, int32_t device,
                                          absl::string_view name);

// Packed rows and token counts stay below this.
inline constexpr int64_t kMaxCount = (int64_t{1} << 31) - 1024;

absl::Status ValidateShape(const AttentionShape& shape);
absl::Status ValidatePlanConfig(const PlanConfig& config);
absl::Status ValidateBatch(const PlanConfig& config, const BatchMetadata& batch,
                           PointerInspector inspect);

// `batch` is what the plan was last updated with (host spans are not read).
absl::Status ValidateVarlen(const PlanConfig& config,
                            const BatchMetadata& batch,
                            const VarlenParams& params,
                            PointerInspector inspect);
absl::Status ValidatePaged(const PlanConfig& config, const BatchMetadata& batch,
                           const PagedParams& params, PointerInspector inspect);

absl::Status ValidateScatter(const ScatterParams& params, int32_t device,
                             PointerInspector inspect);
absl::Status ValidateGather(const GatherParams& params, int32_t device,
                            PointerInspector inspect);
absl::Status ValidateMerge(const MergeParams& params, int32_t device,
                           PointerInspector inspect);

}  // namespace interleave::attention

#endif  // ATTENTION_VALIDATE_H_
