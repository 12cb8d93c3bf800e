// The CSV formats of trace_reader.h, each to the list of its requests in the
// file's order.

#ifndef SIM_WORKLOAD_CSV_TRACES_H_
#define SIM_WORKLOAD_CSV_TRACES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "scheduler/request_spec.h"

namespace interleave::sim {

// Arrivals are nanoseconds since the start of 1970.
absl::StatusOr<std::vector<scheduler::RequestSpec>> ParseAzure2023(
    absl::string_view text, absl::string_view name);

// No arrivals: all zero.
absl::StatusOr<std::vector<scheduler::RequestSpec>> ParseLengths(
    absl::string_view text, absl::string_view name);

absl::StatusOr<std::vector<scheduler::RequestSpec>> ParseReplay(
    absl::string_view text, absl::string_view name);

// `has_classes` becomes true when a column for tenants, priorities or SLOs is
// there.
absl::StatusOr<std::vector<scheduler::RequestSpec>> ParseRequests(
    absl::string_view text, absl::string_view name, bool* has_classes);

}  // namespace interleave::sim

#endif  // SIM_WORKLOAD_CSV_TRACES_H_
