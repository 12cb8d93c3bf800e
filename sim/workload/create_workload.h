// A workload from its configuration.

#ifndef SIM_WORKLOAD_CREATE_WORKLOAD_H_
#define SIM_WORKLOAD_CREATE_WORKLOAD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/workload/workload.h"
#include "sim/workload/workload.pb.h"

namespace interleave::sim {

// Builds what `config` describes, reading the files it names.  Equal
// configuration, files and seed give equal requests on every machine; each
// purpose (arrivals, prompts, outputs, ...) has its own stream of the seed.
//
// Errors are InvalidArgument, and NotFound for a missing file; they name the
// field (or the file and line) and what to do.  What a user should know about
// how files were read is appended to `notices` (may be null).
absl::StatusOr<std::unique_ptr<Workload>> CreateWorkload(
    const WorkloadConfig& config, uint64_t seed,
    std::vector<std::string>* notices);

}  // namespace interleave::sim

#endif  // SIM_WORKLOAD_CREATE_WORKLOAD_H_
