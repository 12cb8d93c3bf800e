#include "sim/cost/create_cost_model.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "sim/cost/device.pb.h"
#include "sim/cost/model.pb.h"
#include "sim/cost/roofline.h"
#include "sim/cost/specs.h"

namespace interleave::sim {

absl::StatusOr<std::unique_ptr<CostModel>> CreateCostModel(
    const CostModelConfig& config) {
  ASSIGN_OR_RETURN(const ModelSpec model, LookupModel(config.model()));
  const Parallelism parallelism = {.tensor_parallel = config.tensor_parallel(),
                                   .block_size = config.block_size()};
  ASSIGN_OR_RETURN(const DeviceSpec device, LookupDevice(config.device()));
  return CreateRoofline(model, device, parallelism, config.roofline());
}

absl::StatusOr<HostOverhead> CreateHostOverhead(
    const HostOverheadOptions& options) {
  for (const double us : {options.constant_us(), options.per_sequence_us()}) {
    if (us >= 0 && us <= 1e9) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("host_overhead of ", us,
                     " us; constant_us and per_sequence_us must be between 0 "
                     "and 1e9"));
  }
  return HostOverhead{SimDuration::Micros(options.constant_us()),
                      SimDuration::Micros(options.per_sequence_us())};
}

}  // namespace interleave::sim
