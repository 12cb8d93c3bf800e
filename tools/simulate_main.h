// What tools/simulate does, as a function.

#ifndef TOOLS_SIMULATE_MAIN_H_
#define TOOLS_SIMULATE_MAIN_H_

#include <functional>
#include <ostream>
#include <string>

#include "absl/types/span.h"

namespace interleave::tools {

struct SimulateEnvironment {
  // Results; messages.  Both must be set.
  std::ostream* out = nullptr;
  std::ostream* err = nullptr;
  // Whether somebody looks at `err`.
  bool show_progress = false;
  // Whether the user wants it to stop; may be empty.
  std::function<bool()> interrupted;
};

// Returns the exit status: 0; 2 for bad input; 130 when interrupted; 1 for any
// other failure.  `args` come without the program's name.
int SimulateMain(absl::Span<const std::string> args,
                 const SimulateEnvironment& environment);

}  // namespace interleave::tools

#endif  // TOOLS_SIMULATE_MAIN_H_
