// Cost models from a configuration.
//
//   CostModelConfig config;
//   config.set_model("llama3.1_8b");
//   config.mutable_profile()->set_directory("profiles/h200");
//   ASSIGN_OR_RETURN(auto cost, CreateCostModel(config));

#ifndef SIM_COST_CREATE_COST_MODEL_H_
#define SIM_COST_CREATE_COST_MODEL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "sim/cost/cost.pb.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/host_overhead.h"

namespace interleave::sim {

// The device's time; the host's is HostOverhead.
absl::StatusOr<std::unique_ptr<CostModel>> CreateCostModel(
    const CostModelConfig& config);

// InvalidArgument for a negative or absurd figure.
absl::StatusOr<HostOverhead> CreateHostOverhead(
    const HostOverheadOptions& options);

}  // namespace interleave::sim

#endif  // SIM_COST_CREATE_COST_MODEL_H_
