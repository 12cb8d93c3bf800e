// Makes --executor=kernels run on this machine's GPU, in whatever program this
// is linked into.

#include "sim/kernel_executor/runner_registry.h"
#include "sim/kernel_executor/warm_decoder.h"

namespace interleave::sim {
namespace {

[[maybe_unused]] const bool kRegistered = RegisterRunner(&CreateWarmDecoder);

}  // namespace
}  // namespace interleave::sim
