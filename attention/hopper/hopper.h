// The family of kernels for Hopper GPUs (sm_90a): head_dim 64, 128 and 256.

#ifndef ATTENTION_HOPPER_HOPPER_H_
#define ATTENTION_HOPPER_HOPPER_H_

#include "attention/family.h"

namespace interleave::attention {

extern const KernelFamily kHopperFamily;

}  // namespace interleave::attention

#endif  // ATTENTION_HOPPER_HOPPER_H_
