// Errors of CUDA calls as Status.

#ifndef ATTENTION_LAUNCH_CHECK_H_
#define ATTENTION_LAUNCH_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cuda_runtime_api.h"

namespace interleave::attention {

// OK for cudaSuccess, otherwise Internal with the call's name and CUDA's words.
absl::Status LaunchStatus(cudaError_t error, absl::string_view call);

// For tests: while it lives, the count-th LaunchStatus of this thread (from 1)
// reports `error`, whatever the call returned.
class ScopedLaunchFault {
 public:
  ScopedLaunchFault(int count, cudaError_t error);
  ~ScopedLaunchFault();
  ScopedLaunchFault(const ScopedLaunchFault&) = delete;
  ScopedLaunchFault& operator=(const ScopedLaunchFault&) = delete;

  // Whether the fault has been reported.
  bool fired() const;
};

}  // namespace interleave::attention

#endif  // ATTENTION_LAUNCH_CHECK_H_
