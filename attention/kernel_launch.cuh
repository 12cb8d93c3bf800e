// Launches of one stream that overlap (CUDA's programmatic dependent launch,
// which Hopper and later GPUs have): a kernel that is launched early may start
// while the launch before it still runs, once that has called AllowNextLaunch
// in every block and blocks find room. It calls AwaitEarlierLaunch before it
// reads what launches before it wrote, or writes what they read.

#ifndef ATTENTION_KERNEL_LAUNCH_CUH_
#define ATTENTION_KERNEL_LAUNCH_CUH_

#include "cuda_runtime_api.h"

namespace interleave::attention {

// Lets the launch behind this one start where blocks find room. Nothing on GPUs
// before Hopper.
__device__ __forceinline__ void AllowNextLaunch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Waits for the end of the launch that this one was allowed to overlap, if any.
// What that launch does not write, such as weights, is best read before.
// Nothing on GPUs before Hopper, where no launches overlap.
__device__ __forceinline__ void AwaitEarlierLaunch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

struct LaunchShape {
  dim3 grid = 1;         // blocks
  int threads = 1;       // of a block
  int shared_bytes = 0;  // dynamic shared memory of a block
  bool early = false;    // asks for Hopper or later
};

// Enqueues kernel on stream with arguments converted to its parameters' types.
// Returns the launch's error, cudaErrorInvalidValue among others where the
// device lacks that much shared memory.
template <typename... Parameters, typename... Arguments>
cudaError_t LaunchKernel(void (*kernel)(Parameters...),
                         const LaunchShape& shape, cudaStream_t stream,
                         const Arguments&... arguments) {
  // What a block may have without being asked for.
  constexpr int kSharedBytes = 48 << 10;
  if (shape.shared_bytes > kSharedBytes) {
    // At each launch: it is cheap, and counts for the current device only.
    const cudaError_t error = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
        shape.shared_bytes);
    if (error != cudaSuccess) return error;
  }
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = shape.early ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel,
                            static_cast<Parameters>(arguments)...);
}

}  // namespace interleave::attention

#endif  // ATTENTION_KERNEL_LAUNCH_CUH_
