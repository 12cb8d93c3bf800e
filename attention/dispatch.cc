#include "attention/dispatch.h"

#include "attention/family.h"
#include "attention/hopper/hopper.h"
#include "attention/kernel_params.h"
#include "attention/params.h"
#include "attention/portable/portable.h"

namespace interleave::attention {

const KernelFamily* ChooseFamily(const AttentionShape& shape, Role role,
                                 KernelChoice choice,
                                 const DeviceFacts& device) {
  // Fastest first; portable, last, is what kPortable asks for.
  const KernelFamily* const families[] = {&kHopperFamily, &portable::Family()};
  for (const KernelFamily* family : families) {
    if (choice == KernelChoice::kPortable && family != &portable::Family()) {
      continue;
    }
    if (family->supports(shape, role, device)) return family;
  }
  return nullptr;
}

}  // namespace interleave::attention
