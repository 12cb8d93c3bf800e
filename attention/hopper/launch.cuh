// Kernels of both roles for one head_dim, and their launchers.

#ifndef ATTENTION_HOPPER_LAUNCH_CUH_
#define ATTENTION_HOPPER_LAUNCH_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "attention/hopper/decode.cuh"
#include "attention/hopper/launch.h"
#include "attention/hopper/prefill.cuh"
#include "attention/hopper/tensor_maps.h"
#include "attention/kernel_launch.cuh"
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
    DecodeKernel(const __grid_constant__ KernelParams params,
                 const __grid_constant__ DecodeTeam team) {
  using Group = Decode<T, kHeadDim, kKeys, kRing, kWarps>;
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ int slots[2];
  // The launch behind may read what the one before this wrote.
  if (!team.follows) AwaitEarlierLaunch();
  AllowNextLaunch();
  DecodeTickets tickets(params, team, slots);
  DecodeTile tile;
  if (tickets.First(&tile)) {
    Group::Run(params, tile, tickets, shared,
               reinterpret_cast<float*>(shared + Group::kRingBytes),
               threadIdx.x);
  }
  tickets.Leave();
  if (team.follows) AwaitEarlierLaunch();
}

template <typename T, int kHeadDim, int kKeyTile>
cudaError_t LaunchPrefill(const KernelParams& params, bool beside_previous,
                          cudaStream_t stream) {
  using Tiles = Prefill<T, kHeadDim, kKeyTile>;
  PrefillMaps maps;
  const cudaError_t error = MakePrefillMaps(params, kKeyTile, &maps);
  if (error != cudaSuccess) return error;
  return LaunchKernel(PrefillKernel<T, kHeadDim, kKeyTile>,
                      {.grid = dim3(params.num_sms),
                       .threads = Tiles::kThreads,
                       .shared_bytes = Tiles::kSharedBytes,
                       .early = beside_previous},
                      stream, params, maps);
}

template <typename T, int kHeadDim, int kKeys, int kRing, int kWarps,
          int kBlocks>
cudaError_t LaunchDecode(const KernelParams& params, int32_t blocks,
                         const DecodeTeam& team, cudaStream_t stream) {
  using Group = Decode<T, kHeadDim, kKeys, kRing, kWarps>;
  return LaunchKernel(DecodeKernel<T, kHeadDim, kKeys, kRing, kWarps, kBlocks>,
                      {.grid = dim3(blocks),
                       .threads = Group::kThreads,
                       .shared_bytes = Group::kRingBytes + Group::kMergeBytes,
                       .early = true},
                      stream, params, team);
}

// Decodes alone, kBlocks blocks a multiprocessor.
template <typename T, int kHeadDim, int kKeys, int kRing, int kWarps,
          int kBlocks>
cudaError_t LaunchDecode(const KernelParams& params, cudaStream_t stream) {
  const int32_t blocks = params.num_sms * kBlocks;
  return LaunchDecode<T, kHeadDim, kKeys, kRing, kWarps, kBlocks>(
      params, blocks, {blocks, blocks, false}, stream);
}

// Both roles side by side, in three launches that overlap: decodes on a part of
// the device that nearly saturates memory, by blocks that leave no room for
// another on their multiprocessor; prefill tiles on the rest, and on what the
// decodes leave; decodes where the prefill tiles ended first.
template <typename T, int kHeadDim, int kKeyTile, int kKeys, int kRing,
          int kWarps>
cudaError_t LaunchSideBySide(const KernelParams& params, cudaStream_t stream) {
  const int32_t first = DecodeSmsBesidePrefill(params.num_sms);
  DecodeTeam team = {first, params.num_sms, false};
  cudaError_t error = LaunchDecode<T, kHeadDim, kKeys, kRing, kWarps, 1>(
      params, first, team, stream);
  if (error != cudaSuccess) return error;
  error = LaunchPrefill<T, kHeadDim, kKeyTile>(params, true, stream);
  if (error != cudaSuccess) return error;
  team.follows = true;
  return LaunchDecode<T, kHeadDim, kKeys, kRing, kWarps, 1>(
      params, params.num_sms - first, team, stream);
}

}  // namespace interleave::attention::hopper

#endif  // ATTENTION_HOPPER_LAUNCH_CUH_
