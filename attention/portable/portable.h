// The portable family: mma.sync kernels for sm_80 and later, every head_dim.

#ifndef ATTENTION_PORTABLE_PORTABLE_H_
#define ATTENTION_PORTABLE_PORTABLE_H_

#include "attention/family.h"

namespace interleave::attention::portable {

const KernelFamily& Family();

}  // namespace interleave::attention::portable

#endif  // ATTENTION_PORTABLE_PORTABLE_H_
