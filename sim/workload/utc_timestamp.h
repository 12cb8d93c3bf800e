// Timestamps as traces write them.

#ifndef SIM_WORKLOAD_UTC_TIMESTAMP_H_
#define SIM_WORKLOAD_UTC_TIMESTAMP_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace interleave::sim {

// "YYYY-MM-DD HH:MM:SS[.fraction][+00:00]", "T" in place of the space allowed,
// up to 9 digits of fraction, years 1970 to 2200: nanoseconds since the start
// of 1970.  The error says what is wrong, to follow the column's name.
absl::StatusOr<int64_t> ParseUtcTimestamp(absl::string_view text);

}  // namespace interleave::sim

#endif  // SIM_WORKLOAD_UTC_TIMESTAMP_H_
