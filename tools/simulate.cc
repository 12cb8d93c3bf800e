// Runs one simulation: bazel run -c opt //tools:simulate -- --help

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "tools/simulate_main.h"

namespace {

std::atomic<bool> interrupted = false;

void OnInterrupt(int signal) { interrupted = true; }

}  // namespace

int main(int argc, char** argv) {
  // `bazel run` starts programs in a folder of its own; paths are the user's.
  if (const char* folder = std::getenv("BUILD_WORKING_DIRECTORY");
      folder != nullptr && chdir(folder) != 0) {
    std::cerr << "simulate: cannot enter " << folder << "\n";
    return 1;
  }
  // So that nothing half-written is left behind.
  std::signal(SIGINT, &OnInterrupt);
  std::signal(SIGTERM, &OnInterrupt);
  interleave::tools::SimulateEnvironment environment;
  environment.out = &std::cout;
  environment.err = &std::cerr;
  environment.show_progress = isatty(STDERR_FILENO) == 1;
  environment.interrupted = [] { return interrupted.load(); };
  const std::vector<std::string> args(argv + 1, argv + argc);
  return interleave::tools::SimulateMain(args, environment);
}
