#include "sim/cost/create_cost_model.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "sim/cost/device.pb.h"
#include "sim/cost/kernel_table_model.h"
#include "sim/cost/model.pb.h"
#include "sim/cost/profile_model.h"
#include "sim/cost/profile_tables.h"
#include "sim/cost/roofline.h"
#include "sim/cost/shipped_profiles.h"
#include "sim/cost/specs.h"

namespace interleave::sim {
namespace {

absl::StatusOr<std::unique_ptr<CostModel>> CreateProfile(
    const ModelSpec& model, const DeviceSpec& device,
    const Parallelism& parallelism, const ProfileOptions& options) {
  ASSIGN_OR_RETURN(ProfileTables tables, LoadProfile(options));
  return CreateProfileModel(model, device, parallelism, options,
                            std::move(tables));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CostModel>> CreateCostModel(
    const CostModelConfig& config) {
  ASSIGN_OR_RETURN(const ModelSpec model, LookupModel(config.model()));
  const Parallelism parallelism = {.tensor_parallel = config.tensor_parallel(),
                                   .block_size = config.block_size()};
  ASSIGN_OR_RETURN(const DeviceSpec device, LookupDevice(config.device()));
  if (config.block_size() < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "block_size is ", config.block_size(), "; it must be at least 1"));
  }
  switch (config.kind_case()) {
    case CostModelConfig::kProfile:
      return CreateProfile(model, device, parallelism, config.profile());
    case CostModelConfig::kKernelTables:
      return CreateKernelTableModel(model, device, parallelism,
                                    config.kernel_tables());
    case CostModelConfig::kRoofline:
    case CostModelConfig::KIND_NOT_SET:
      break;
  }
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
