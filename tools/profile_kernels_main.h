// What tools:profile_kernels does, as a function: measures a profile of an
// engine and writes it as a folder of tables.

#ifndef TOOLS_PROFILE_KERNELS_MAIN_H_
#define TOOLS_PROFILE_KERNELS_MAIN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "sim/cost/model.pb.h"
#include "sim/kernel_executor/batch_runner.h"

namespace interleave::tools {

// What is to be profiled, and under which names it is known.
struct ProfiledEngine {
  std::unique_ptr<sim::BatchRunner> runner;
  std::string gpu;
  std::string driver_version;
  std::string cuda_version;
  // Batch sizes of captured graphs.
  std::vector<int32_t> graph_sizes;
  // The text of linear_choices.csv; empty: there is none.
  std::string linear_choices;
};

// What the engine must be able to run.
struct EngineLimits {
  int32_t block_size = 16;
  int32_t max_num_seqs = 0;
  int32_t max_num_batched_tokens = 0;
  int32_t max_model_len = 0;
};

struct ProfileKernelsEnvironment {
  std::ostream* out = nullptr;
  std::ostream* err = nullptr;
  bool show_progress = false;
  // Asked now and then; true ends with exit status 130, and what was measured
  // is kept.
  std::function<bool()> interrupted;
  // The text: of the linear_choices.csv to go by; empty: the engine chooses.
  std::function<absl::StatusOr<ProfiledEngine>(
      const sim::ModelSpec&, const EngineLimits&, const std::string&)>
      create_engine;
  std::function<absl::Time()> now = &absl::Now;
};

// `args` without the program's name.  Returns the exit status: 0; 2 for bad
// input; 130 where it was interrupted; 1 for any other failure.
int ProfileKernelsMain(absl::Span<const std::string> args,
                       const ProfileKernelsEnvironment& environment);

}  // namespace interleave::tools

#endif  // TOOLS_PROFILE_KERNELS_MAIN_H_
