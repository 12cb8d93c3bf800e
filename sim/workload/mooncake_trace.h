// The mooncake format of trace_reader.h.

#ifndef SIM_WORKLOAD_MOONCAKE_TRACE_H_
#define SIM_WORKLOAD_MOONCAKE_TRACE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "scheduler/request_spec.h"

namespace interleave::sim {

// The prompt tokens that one id of `hash_ids` names; the last id names what is
// left.
inline constexpr int32_t kMooncakeBlockTokens = 512;

// The requests in the file's order.  Keys other than the four are ignored.
absl::StatusOr<std::vector<scheduler::RequestSpec>> ParseMooncake(
    absl::string_view text, absl::string_view name);

}  // namespace interleave::sim

#endif  // SIM_WORKLOAD_MOONCAKE_TRACE_H_
