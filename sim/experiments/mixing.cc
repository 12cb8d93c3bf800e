// The main experiment: bazel run -c opt //sim/experiments:mixing

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "sim/experiments/mixing_main.h"

namespace {

namespace fs = std::filesystem;

std::atomic<bool> interrupted = false;

void OnInterrupt(int signal) { interrupted = true; }

// A file of this workspace that the program depends on: below its .runfiles, or
// (started by Bazel) below the working folder.
std::string Runfile(const std::string& path) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path beside =
      fs::path(program.string() + ".runfiles") / "interleave" / path;
  return fs::exists(beside, error) ? beside.string()
                                   : fs::absolute(path).string();
}

}  // namespace

int main(int argc, char** argv) {
  interleave::sim::MixingEnvironment environment;
  environment.default_workload =
      Runfile("sim/experiments/azure_like_conversation.csv");
  // `bazel run` starts programs in a folder of its own; paths are the user's.
  if (const char* folder = std::getenv("BUILD_WORKING_DIRECTORY");
      folder != nullptr && chdir(folder) != 0) {
    std::cerr << "mixing: cannot enter " << folder << "\n";
    return 1;
  }
  // So that nothing half-written is left behind.
  std::signal(SIGINT, &OnInterrupt);
  std::signal(SIGTERM, &OnInterrupt);
  environment.out = &std::cout;
  environment.err = &std::cerr;
  environment.show_progress = isatty(STDERR_FILENO) == 1;
  environment.interrupted = [] { return interrupted.load(); };
  const std::vector<std::string> args(argv + 1, argv + argc);
  return interleave::sim::MixingMain(args, environment);
}
