// What a family of kernels offers to the dispatch.

#ifndef ATTENTION_FAMILY_H_
#define ATTENTION_FAMILY_H_

#include <cstdint>

#include "attention/kernel_params.h"
#include "attention/params.h"
#include "cuda_runtime_api.h"

namespace interleave::attention {

struct DeviceFacts {
  int32_t compute_major = 0;
  int32_t compute_minor = 0;
  int32_t num_sms = 0;
  int32_t max_shared_memory = 0;  // bytes a block may opt in to
};

// How a family lays out one role's tiles.
struct TileShape {
  int32_t rows = 0;           // packed rows of a tile
  int32_t kv = 0;             // keys of a kv tile: splits are multiples of it
  int32_t blocks_per_sm = 1;  // resident thread blocks, for the split target
};

// A family of kernels. A family is a constant of its own library; dispatch.cc
// lists them, fastest first.
struct KernelFamily {
  const char* name;
  // Whether it runs this role of this shape on this device.
  bool (*supports)(const AttentionShape& shape, Role role,
                   const DeviceFacts& device);
  TileShape (*tile_shape)(const AttentionShape& shape, Role role,
                          const DeviceFacts& device);
  // Enqueues the role's persistent kernel over params.schedule.
  cudaError_t (*launch)(const KernelParams& params, Role role,
                        cudaStream_t stream);
  // Enqueues both roles' kernels so that they run side by side; null in a
  // family that cannot.
  cudaError_t (*launch_mixed)(const KernelParams& params,
                              cudaStream_t stream) = nullptr;
};

}  // namespace interleave::attention

#endif  // ATTENTION_FAMILY_H_
