// The instantiations of the portable kernels, one source file each.

#ifndef ATTENTION_PORTABLE_INSTANCES_H_
#define ATTENTION_PORTABLE_INSTANCES_H_

#include "attention/kernel_params.h"
#include "cuda_runtime_api.h"

namespace interleave::attention::portable {

#define ATTENTION_PORTABLE_DECLARE(name)                                      \
  cudaError_t Launch##name(const KernelParams& params, Role role, int stages, \
                           int blocks, cudaStream_t stream);
ATTENTION_PORTABLE_DECLARE(Bf16Dim64)
ATTENTION_PORTABLE_DECLARE(Bf16Dim80)
ATTENTION_PORTABLE_DECLARE(Bf16Dim96)
ATTENTION_PORTABLE_DECLARE(Bf16Dim128)
ATTENTION_PORTABLE_DECLARE(Bf16Dim192)
ATTENTION_PORTABLE_DECLARE(Bf16Dim256)
ATTENTION_PORTABLE_DECLARE(Fp16Dim64)
ATTENTION_PORTABLE_DECLARE(Fp16Dim80)
ATTENTION_PORTABLE_DECLARE(Fp16Dim96)
ATTENTION_PORTABLE_DECLARE(Fp16Dim128)
ATTENTION_PORTABLE_DECLARE(Fp16Dim192)
ATTENTION_PORTABLE_DECLARE(Fp16Dim256)
#undef ATTENTION_PORTABLE_DECLARE

}  // namespace interleave::attention::portable

#endif  // ATTENTION_PORTABLE_INSTANCES_H_
