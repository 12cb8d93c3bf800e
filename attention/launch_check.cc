#include "attention/launch_check.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cuda_runtime_api.h"

namespace interleave::attention {
namespace {

// Zero: no fault is armed (or it has fired).
thread_local int fault_countdown = 0;
thread_local cudaError_t fault_error = cudaSuccess;

}  // namespace

absl::Status LaunchStatus(cudaError_t error, absl::string_view call) {
  if (fault_countdown > 0 && --fault_countdown == 0) error = fault_error;
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(call, ": ", cudaGetErrorName(error),
                                          ": ", cudaGetErrorString(error)));
}

ScopedLaunchFault::ScopedLaunchFault(int count, cudaError_t error) {
  fault_countdown = count;
  fault_error = error;
}

ScopedLaunchFault::~ScopedLaunchFault() { fault_countdown = 0; }

bool ScopedLaunchFault::fired() const { return fault_countdown == 0; }

}  // namespace interleave::attention
