// Which family of kernels runs a role.

#ifndef ATTENTION_DISPATCH_H_
#define ATTENTION_DISPATCH_H_

#include "attention/family.h"
#include "attention/kernel_params.h"
#include "attention/params.h"

namespace interleave::attention {

// The family for a role, or null when none supports it.
const KernelFamily* ChooseFamily(const AttentionShape& shape, Role role,
                                 KernelChoice choice,
                                 const DeviceFacts& device);

}  // namespace interleave::attention

#endif  // ATTENTION_DISPATCH_H_
