// Serve: an engine at work on what is to be profiled.
//
// Requests as those of conversations arrive at random, under one policy ever
// more of them until they are more than can be served, under the next ever
// fewer: whole batches of every size as simulations have them, with the caches,
// the lengths, the rows of prompts, the load that lasts and the host's work
// that batches made for a profile lack.

#ifndef SIM_PROFILING_SERVE_H_
#define SIM_PROFILING_SERVE_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "scheduler/limits.h"
#include "sim/cost/batch_shape.h"
#include "sim/cost/cost_model.h"
#include "sim/executor.h"
#include "sim/kernel_executor/batch_runner.h"

namespace interleave::sim {

struct ServeOptions {
  scheduler::Limits limits;
  // Tokens that the runner takes at once; longer batches run in parts.
  int64_t max_tokens = 8192;
  // Of all policies together, once.
  double seconds = 90;
  uint64_t seed = 1;
};

// Told of each batch that has run; false where that is enough.
using OnServed = std::function<bool(const BatchShape&, const IterationTiming&)>;

// Goes on, from the first policy again with other requests, until told that it
// is enough.  Rates are shares of what the runner can do by `cost`, a model of
// it, which is asked and told nothing else.
// Errors are those of the runner, and InvalidArgument where it is too small for
// a request.
absl::Status Serve(BatchRunner& runner, CostModel& cost,
                   const ServeOptions& options, const OnServed& on_served);

}  // namespace interleave::sim

#endif  // SIM_PROFILING_SERVE_H_
