// Launchers of the Hopper kernels, one a head_dim, and their tile shapes.
// Internal to this folder.

#ifndef ATTENTION_HOPPER_LAUNCH_H_
#define ATTENTION_HOPPER_LAUNCH_H_

#include <cstdint>

#include "attention/kernel_params.h"
#include "cuda_runtime_api.h"

namespace interleave::attention::hopper {

// Packed rows and keys of one tile of the prefill kernel for a head_dim.
constexpr int32_t PrefillTileRows(int32_t head_dim) {
  return head_dim == 64 ? 192 : 128;
}
constexpr int32_t PrefillKeyTile(int32_t head_dim) {
  return head_dim == 256 ? 80 : 128;
}

// Shape of a decode block: see decode.cuh.
constexpr int32_t kDecodeTileRows = 16;
constexpr int32_t kDecodeKeyTile = 128;  // splits are multiples of it
constexpr int32_t DecodeBlocksPerSm(int32_t head_dim) {
  return head_dim == 256 ? 1 : 2;
}

// Multiprocessors that take decodes while others take prefill tiles.
constexpr int32_t DecodeSmsBesidePrefill(int32_t num_sms) {
  return num_sms - num_sms / 2;
}

// What one launch computes of a schedule.
enum class Part { kPrefill, kDecode, kMixed };

cudaError_t LaunchHeadDim64(const KernelParams& params, Part part,
                            cudaStream_t stream);
cudaError_t LaunchHeadDim128(const KernelParams& params, Part part,
                             cudaStream_t stream);
cudaError_t LaunchHeadDim256(const KernelParams& params, Part part,
                             cudaStream_t stream);

}  // namespace interleave::attention::hopper

#endif  // ATTENTION_HOPPER_LAUNCH_H_
