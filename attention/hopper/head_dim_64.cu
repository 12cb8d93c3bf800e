#include "attention/hopper/launch.cuh"

namespace interleave::attention::hopper {
namespace {

template <typename T>
cudaError_t Launch(const KernelParams& params, Part part, cudaStream_t stream) {
  constexpr int kKeyTile = PrefillKeyTile(64);
  switch (part) {
    case Part::kPrefill:
      return LaunchPrefill<T, 64, kKeyTile>(params, false, stream);
    case Part::kDecode:
      return LaunchDecode<T, 64, 32, 3, 4, DecodeBlocksPerSm(64)>(params,
                                                                  stream);
    case Part::kMixed:
      return LaunchSideBySide<T, 64, kKeyTile, 32, 3, 8>(params, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t LaunchHeadDim64(const KernelParams& params, Part part,
                            cudaStream_t stream) {
  return params.dtype == DataType::kBFloat16
             ? Launch<__nv_bfloat16>(params, part, stream)
             : Launch<__half>(params, part, stream);
}

}  // namespace interleave::attention::hopper
