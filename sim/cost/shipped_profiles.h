// Profiles that are compiled into the program, by name, and those in folders.

#ifndef SIM_COST_SHIPPED_PROFILES_H_
#define SIM_COST_SHIPPED_PROFILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sim/cost/cost.pb.h"
#include "sim/cost/profile_tables.h"
#include "sim/cost/specs.h"

namespace interleave::sim {

// The shipped ones, by name; the description says what was measured, and when.
std::vector<NamedSpec> ListProfiles();
bool IsShippedProfile(absl::string_view name);
// The shipped profile of a shipped model on a shipped device; "" if there is
// none.
std::string ShippedProfileFor(absl::string_view model,
                              absl::string_view device);

// The tables that `options` names.  InvalidArgument unless it names one of a
// folder and a shipped profile; NotFound for an unknown name, listing the known
// ones, and for a folder without tables.
absl::StatusOr<ProfileTables> LoadProfile(const ProfileOptions& options);

// Gives a configuration with a profile that was measured with its host
// overhead, and with none of its own, that of the profile.
absl::Status SettleHostOverhead(CostModelConfig* config);

}  // namespace interleave::sim

#endif  // SIM_COST_SHIPPED_PROFILES_H_
