#include "attention/hopper/launch.cuh"

namespace interleave::attention::hopper {
namespace {

template <typename T>
cudaError_t Launch(const KernelParams& params, Part part, cudaStream_t stream) {
  constexpr int kKeyTile = PrefillKeyTile(256);
  switch (part) {
    case Part::kPrefill:
      return LaunchPrefill<T, 256, kKeyTile>(params, false, stream);
    case Part::kDecode:
      return LaunchDecode<T, 256, 16, 3, 4, DecodeBlocksPerSm(256)>(params,
                                                                    stream);
    case Part::kMixed:
      return LaunchSideBySide<T, 256, kKeyTile, 16, 3, 4>(params, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t LaunchHeadDim256(const KernelParams& params, Part part,
                             cudaStream_t stream) {
  return params.dtype == DataType::kBFloat16
             ? Launch<__nv_bfloat16>(params, part, stream)
             : Launch<__half>(params, part, stream);
}

}  // namespace interleave::attention::hopper
