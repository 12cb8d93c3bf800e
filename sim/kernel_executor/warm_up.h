// WarmUp: what happens once, when a kernel is launched for the first time.

#ifndef SIM_KERNEL_EXECUTOR_WARM_UP_H_
#define SIM_KERNEL_EXECUTOR_WARM_UP_H_

#include "absl/status/status.h"
#include "sim/kernel_executor/batch_runner.h"
#include "sim/kernel_executor/decoder_options.h"

namespace interleave::sim {

// Runs a batch of every kind that `options` allow, so that no iteration later
// waits for code to be loaded (the first one took 10 ms longer).  What the KV
// cache held is lost.
absl::Status WarmUp(const DecoderOptions& options, BatchRunner& runner);

}  // namespace interleave::sim

#endif  // SIM_KERNEL_EXECUTOR_WARM_UP_H_
