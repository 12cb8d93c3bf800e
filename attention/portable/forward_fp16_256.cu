#include "attention/portable/forward_kernel.cuh"
#include "attention/portable/instances.h"

namespace interleave::attention::portable {

cudaError_t LaunchFp16Dim256(const KernelParams& params, Role role, int stages,
                             int blocks, cudaStream_t stream) {
  return role == Role::kPrefill ? LaunchRole<__half, 256, Role::kPrefill>(
                                      params, stages, blocks, stream)
                                : LaunchRole<__half, 256, Role::kDecode>(
                                      params, stages, blocks, stream);
}

}  // namespace interleave::attention::portable
