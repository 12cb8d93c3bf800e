// Tensor maps: how the bulk copy engine finds K and V. Internal to this folder.

#ifndef ATTENTION_HOPPER_TENSOR_MAPS_H_
#define ATTENTION_HOPPER_TENSOR_MAPS_H_

#include <cstdint>

#include "attention/kernel_params.h"
#include "cuda.h"
#include "cuda_runtime_api.h"

namespace interleave::attention::hopper {

// How K and V reach the prefill kernels' shared memory.
struct PrefillMaps {
  CUtensorMap k;
  CUtensorMap v;
  // Rows of one box: the key tile's for contiguous keys, a divisor of it and of
  // the page size for pages; 0 when no box fits and threads gather.
  int32_t box_rows;
};

// Maps for a kernel whose key tiles have key_tile rows.
cudaError_t MakePrefillMaps(const KernelParams& params, int32_t key_tile,
                            PrefillMaps* maps);

}  // namespace interleave::attention::hopper

#endif  // ATTENTION_HOPPER_TENSOR_MAPS_H_
