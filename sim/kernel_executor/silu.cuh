// SiLU, as every kernel of the decoder computes it.

#ifndef SIM_KERNEL_EXECUTOR_SILU_CUH_
#define SIM_KERNEL_EXECUTOR_SILU_CUH_

namespace interleave::sim {

__device__ __forceinline__ float Silu(float x) {
  return __fdividef(x, 1.0f + __expf(-x));
}

}  // namespace interleave::sim

#endif  // SIM_KERNEL_EXECUTOR_SILU_CUH_
