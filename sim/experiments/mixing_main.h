// The experiment that this project is for: how policies that mix prefill and
// decode differently trade time to first token against time between tokens.

#ifndef SIM_EXPERIMENTS_MIXING_MAIN_H_
#define SIM_EXPERIMENTS_MIXING_MAIN_H_

#include <functional>
#include <ostream>
#include <string>

#include "absl/types/span.h"

namespace interleave::sim {

struct MixingEnvironment {
  // Results; messages.  Both must be set.
  std::ostream* out = nullptr;
  std::ostream* err = nullptr;
  // The trace that --workload replaces.
  std::string default_workload;
  // Whether somebody looks at `err`.
  bool show_progress = false;
  // Whether the user wants it to stop; may be empty.
  std::function<bool()> interrupted;
};

// Returns the exit status: 0; 2 for bad input; 130 when interrupted; 1 for any
// other failure.  `args` come without the program's name.
int MixingMain(absl::Span<const std::string> args,
               const MixingEnvironment& environment);

}  // namespace interleave::sim

#endif  // SIM_EXPERIMENTS_MIXING_MAIN_H_
