// Runs one simulation: bazel run -c opt //tools:simulate -- --help

#include <unistd.h>

#include <iostream>
#include <string>
#include <vector>

#include "base/program.h"
#include "tools/simulate_main.h"

int main(int argc, char** argv) {
  if (!interleave::EnterUserFolder("simulate")) return 1;
  interleave::tools::SimulateEnvironment environment;
  environment.out = &std::cout;
  environment.err = &std::cerr;
  environment.show_progress = isatty(STDERR_FILENO) == 1;
  environment.interrupted = interleave::CatchInterrupts();
  const std::vector<std::string> args(argv + 1, argv + argc);
  return interleave::tools::SimulateMain(args, environment);
}
