#include "attention/hopper/hopper.h"

#include <cstdint>

#include "attention/family.h"
#include "attention/hopper/launch.h"
#include "attention/kernel_params.h"
#include "attention/params.h"
#include "cuda_runtime_api.h"

namespace interleave::attention {
namespace {

bool Supports(const AttentionShape& shape, Role role,
              const DeviceFacts& device) {
  constexpr int32_t kNeededShared = 227 * 1024;
  return device.compute_major == 9 && device.compute_minor == 0 &&
         device.max_shared_memory >= kNeededShared &&
         (shape.head_dim == 64 || shape.head_dim == 128 ||
          shape.head_dim == 256);
}

TileShape GetTileShape(const AttentionShape& shape, Role role,
                       const DeviceFacts& device) {
  if (role == Role::kPrefill) {
    return {hopper::PrefillTileRows(shape.head_dim),
            hopper::PrefillKeyTile(shape.head_dim), 1};
  }
  return {hopper::kDecodeTileRows, hopper::kDecodeKeyTile,
          hopper::DecodeBlocksPerSm(shape.head_dim)};
}

cudaError_t LaunchPart(const KernelParams& params, hopper::Part part,
                       cudaStream_t stream) {
  switch (params.head_dim) {
    case 64:
      return hopper::LaunchHeadDim64(params, part, stream);
    case 128:
      return hopper::LaunchHeadDim128(params, part, stream);
    case 256:
      return hopper::LaunchHeadDim256(params, part, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t Launch(const KernelParams& params, Role role, cudaStream_t stream) {
  return LaunchPart(
      params,
      role == Role::kPrefill ? hopper::Part::kPrefill : hopper::Part::kDecode,
      stream);
}

cudaError_t LaunchMixed(const KernelParams& params, cudaStream_t stream) {
  return LaunchPart(params, hopper::Part::kMixed, stream);
}

}  // namespace

const KernelFamily kHopperFamily = {"hopper", Supports, GetTileShape, Launch,
                                    LaunchMixed};

}  // namespace interleave::attention
