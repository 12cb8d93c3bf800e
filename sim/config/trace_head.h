// What the first line of a trace tells, without reading the rest.

#ifndef SIM_CONFIG_TRACE_HEAD_H_
#define SIM_CONFIG_TRACE_HEAD_H_

#include <string>

#include "absl/status/statusor.h"
#include "sim/workload/workload.pb.h"

namespace interleave::sim {

struct TraceHead {
  // As TraceConfig.format.
  std::string format;
  bool has_arrivals = true;
  // Prompts may share prefixes.
  bool names_prefixes = false;
};

// Believes `trace.format()` where it is set.  NotFound for a file that cannot
// be read, InvalidArgument for one whose format nobody knows.
absl::StatusOr<TraceHead> ReadTraceHead(const TraceConfig& trace);

}  // namespace interleave::sim

#endif  // SIM_CONFIG_TRACE_HEAD_H_
