// Models and devices by name: the shipped ones (models/, devices/), or a
// user's text file.

#ifndef SIM_COST_SPECS_H_
#define SIM_COST_SPECS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sim/cost/device.pb.h"
#include "sim/cost/model.pb.h"

namespace interleave::sim {

struct NamedSpec {
  std::string name;
  std::string description;
};

// The shipped ones, by name.
std::vector<NamedSpec> ListModels();
std::vector<NamedSpec> ListDevices();

// A shipped name, or the path of a text file: what has a '/' or ends in
// ".textproto" is a path.  NotFound for an unknown name, listing the known
// ones; InvalidArgument with file and line for a file that does not parse or
// whose figures cannot be.
absl::StatusOr<ModelSpec> LookupModel(absl::string_view name_or_path);
absl::StatusOr<DeviceSpec> LookupDevice(absl::string_view name_or_path);

// InvalidArgument naming the first field that is missing or cannot be.
absl::Status ValidateModel(const ModelSpec& model);
absl::Status ValidateDevice(const DeviceSpec& device);

}  // namespace interleave::sim

#endif  // SIM_COST_SPECS_H_
