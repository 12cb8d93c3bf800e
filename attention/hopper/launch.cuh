// Kernels of both roles for one head_dim, and their launchers.

#ifndef ATTENTION_HOPPER_LAUNCH_CUH_
#define ATTENTION_HOPPER_LAUNCH_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "attention/hopper/decode.cuh"
#include "attention/hopper/launch.h"
#include "attention/hopper/prefill.cuh"
#include "attention/hopper/tensor_maps.h"
#include "attention/kernel_params.h"
#include "cuda_runtime_api.h"

namespace interleave::attention::hopper {

template <typename T, int kHeadDim, int kKeyTile>
__global__ void __launch_bounds__((Prefill<T, kHeadDim, kKeyTile>::kThreads), 1)
    PrefillKernel(const __grid_constant__ KernelParams params,
                  const __grid_constant__ PrefillMaps maps) {
  extern __shared__ uint8_t shared[];
  Prefill<T, kHeadDim, kKeyTile>::Run(params, maps, shared);
}

template <typename T, int kHeadDim, int kKeys, int kRing, int kWarps,
          int kBlocks>
__global__ void __launch_bounds__(32 * kWarps, kBlocks)
    DecodeKernel(const __grid_constant__ KernelParams params) {
  using Group = Decode<T, kHeadDim, kKeys, kRing, kWarps>;
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ int ticket;
  DecodeTickets tickets(params, &ticket);
  DecodeTile tile;
  if (tickets.First(&tile)) {
    Group::Run(params, tile, tickets, shared,
               reinterpret_cast<float*>(shared + Group::kRingBytes),
               threadIdx.x);
  }
  tickets.Leave();
}

template <typename T, int kHeadDim, int kKeyTile>
cudaError_t LaunchPrefill(const KernelParams& params, cudaStream_t stream) {
  using Role = Prefill<T, kHeadDim, kKeyTile>;
  auto* kernel = PrefillKernel<T, kHeadDim, kKeyTile>;
  PrefillMaps maps;
  cudaError_t error = MakePrefillMaps(params, kKeyTile, &maps);
  if (error != cudaSuccess) return error;
  error = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Role::kSharedBytes);
  if (error != cudaSuccess) return error;
  kernel<<<params.num_sms, Role::kThreads, Role::kSharedBytes, stream>>>(params,
                                                                         maps);
  return cudaGetLastError();
}

template <typename T, int kHeadDim, int kKeys, int kRing, int kWarps,
          int kBlocks>
cudaError_t LaunchDecode(const KernelParams& params, cudaStream_t stream) {
  using Group = Decode<T, kHeadDim, kKeys, kRing, kWarps>;
  constexpr int kSharedBytes = Group::kRingBytes + Group::kMergeBytes;
  auto* kernel = DecodeKernel<T, kHeadDim, kKeys, kRing, kWarps, kBlocks>;
  const cudaError_t error = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error != cudaSuccess) return error;
  kernel<<<params.num_sms * kBlocks, Group::kThreads, kSharedBytes, stream>>>(
      params);
  return cudaGetLastError();
}

}  // namespace interleave::attention::hopper

#endif  // ATTENTION_HOPPER_LAUNCH_CUH_
