// The registry of scheduling policies, by name.
//
// A policy registers itself where it is linked in (the scheduling_policy()
// macro of scheduler/defs.bzl sees to that), so that adding one edits no list.

#ifndef SCHEDULER_REGISTRY_H_
#define SCHEDULER_REGISTRY_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "scheduler/policy.h"

namespace interleave::scheduler {

// Makes a policy from the text form of its options (a protobuf text message of
// the policy's own; "" means its defaults).  InvalidArgument names the field.
using PolicyFactory = std::function<absl::StatusOr<std::unique_ptr<Policy>>(
    absl::string_view options)>;

struct PolicyInfo {
  std::string name;
  // One line for a person.
  std::string description;
};

// Called by REGISTER_POLICY; CHECK-fails when the name is taken.
bool RegisterPolicy(absl::string_view name, absl::string_view description,
                    PolicyFactory factory);

// NotFound lists the names that are linked in; InvalidArgument is the
// factory's.
absl::StatusOr<std::unique_ptr<Policy>> CreatePolicy(absl::string_view name,
                                                     absl::string_view options);

// Sorted by name.
std::vector<PolicyInfo> RegisteredPolicies();

}  // namespace interleave::scheduler

#define REGISTER_POLICY(name, description, factory) \
  INTERLEAVE_REGISTER_POLICY(name, description, factory, __COUNTER__)
#define INTERLEAVE_REGISTER_POLICY(name, description, factory, n) \
  INTERLEAVE_REGISTER_POLICY_AS(name, description, factory, n)
#define INTERLEAVE_REGISTER_POLICY_AS(name, description, factory, n) \
  [[maybe_unused]] static const bool policy_registered_##n =         \
      ::interleave::scheduler::RegisterPolicy(name, description, factory)

#endif  // SCHEDULER_REGISTRY_H_
