#include "attention/portable/portable.h"

#include <algorithm>

#include "attention/family.h"
#include "attention/kernel_params.h"
#include "attention/params.h"
#include "attention/portable/instances.h"
#include "attention/portable/layout.h"
#include "cuda_runtime_api.h"

namespace interleave::attention::portable {
namespace {

// Static shared memory of the kernels, rounded up.
constexpr int kStaticBytes = 128;

bool Supports(const AttentionShape& shape, Role role,
              const DeviceFacts& device) {
  switch (shape.head_dim) {
    case 64:
    case 80:
    case 96:
    case 128:
    case 192:
    case 256:
      break;
    default:
      return false;
  }
  return device.compute_major >= 8 &&
         SharedBytes(role, shape.head_dim, 1) + kStaticBytes <=
             device.max_shared_memory;
}

TileShape TileShapeOf(const AttentionShape& shape, Role role,
                      const DeviceFacts& device) {
  TileShape tile;
  tile.rows = Rows(role);
  tile.kv = TileKv(role, shape.head_dim);
  tile.blocks_per_sm =
      BlocksPerSm(role, shape.head_dim, device.max_shared_memory);
  return tile;
}

cudaError_t LaunchInstance(const KernelParams& params, Role role, int stages,
                           int blocks, cudaStream_t stream) {
  const bool bf16 = params.dtype == DataType::kBFloat16;
  const auto launch = [&](auto bf16_kernel, auto fp16_kernel) {
    return bf16 ? bf16_kernel(params, role, stages, blocks, stream)
                : fp16_kernel(params, role, stages, blocks, stream);
  };
  switch (params.head_dim) {
    case 64:
      return launch(LaunchBf16Dim64, LaunchFp16Dim64);
    case 80:
      return launch(LaunchBf16Dim80, LaunchFp16Dim80);
    case 96:
      return launch(LaunchBf16Dim96, LaunchFp16Dim96);
    case 128:
      return launch(LaunchBf16Dim128, LaunchFp16Dim128);
    case 192:
      return launch(LaunchBf16Dim192, LaunchFp16Dim192);
    case 256:
      return launch(LaunchBf16Dim256, LaunchFp16Dim256);
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t Launch(const KernelParams& params, Role role, cudaStream_t stream) {
  int max_shared = 0;
  const cudaError_t error = cudaDeviceGetAttribute(
      &max_shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, params.device);
  if (error != cudaSuccess) return error;
  const int stages = Stages(role, params.head_dim, max_shared);
  const int resident =
      params.num_sms * BlocksPerSm(role, params.head_dim, max_shared);
  const int blocks =
      std::min(params.schedule.max_items[static_cast<int>(role)], resident);
  return LaunchInstance(params, role, stages, blocks, stream);
}

}  // namespace

const KernelFamily& Family() {
  static constexpr KernelFamily kFamily = {"portable", Supports, TileShapeOf,
                                           Launch};
  return kFamily;
}

}  // namespace interleave::attention::portable
