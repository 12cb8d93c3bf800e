#include "attention/hopper/launch.cuh"

namespace interleave::attention::hopper {
namespace {

template <typename T>
cudaError_t Launch(const KernelParams& params, Role role, cudaStream_t stream) {
  if (role == Role::kDecode) {
    return LaunchDecode<T, 256, 16, 3, 4, DecodeBlocksPerSm(256)>(params,
                                                                  stream);
  }
  return LaunchPrefill<T, 256, PrefillKeyTile(256)>(params, stream);
}

}  // namespace

cudaError_t LaunchHeadDim256(const KernelParams& params, Role role,
                             cudaStream_t stream) {
  return params.dtype == DataType::kBFloat16
             ? Launch<__nv_bfloat16>(params, role, stream)
             : Launch<__half>(params, role, stream);
}

}  // namespace interleave::attention::hopper
