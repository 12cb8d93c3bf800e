// ParsePolicyOptions: from the text that a user gives to a policy's options.
//
//   ASSIGN_OR_RETURN(const StallFreeOptions options,
//                    ParsePolicyOptions<StallFreeOptions>(text));
//   RETURN_IF_ERROR(RequireAtLeast("chunk_tokens", options.chunk_tokens(), 0));
//
// Every error is InvalidArgument and names the field.

#ifndef SCHEDULER_POLICIES_PARSE_POLICY_OPTIONS_H_
#define SCHEDULER_POLICIES_PARSE_POLICY_OPTIONS_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "google/protobuf/message.h"
#include "scheduler/policy.h"

namespace interleave::scheduler {

// Reads protobuf text into `options`; an error also lists the fields there are.
absl::Status ParsePolicyOptionsInto(absl::string_view text,
                                    google::protobuf::Message& options);

template <typename Options>
absl::StatusOr<Options> ParsePolicyOptions(absl::string_view text) {
  Options options;
  RETURN_IF_ERROR(ParsePolicyOptionsInto(text, options));
  return options;
}

// InvalidArgument unless `text` is blank: for policies without options.
absl::Status RequireNoOptions(absl::string_view text);

// The factory of a policy without options, for REGISTER_POLICY.
template <typename PolicyType>
absl::StatusOr<std::unique_ptr<Policy>> CreateWithoutOptions(
    absl::string_view text) {
  RETURN_IF_ERROR(RequireNoOptions(text));
  return std::make_unique<PolicyType>();
}

absl::Status RequireAtLeast(absl::string_view field, int64_t value,
                            int64_t least);
// In [0, 1).
absl::Status RequireFraction(absl::string_view field, double value);

}  // namespace interleave::scheduler

#endif  // SCHEDULER_POLICIES_PARSE_POLICY_OPTIONS_H_
