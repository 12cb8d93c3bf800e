// The main experiment: bazel run -c opt //sim/experiments:mixing

#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "base/program.h"
#include "sim/experiments/mixing_main.h"

namespace {

namespace fs = std::filesystem;

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
  if (!interleave::EnterUserFolder("mixing")) return 1;
  environment.out = &std::cout;
  environment.err = &std::cerr;
  environment.show_progress = isatty(STDERR_FILENO) == 1;
  environment.interrupted = interleave::CatchInterrupts();
  const std::vector<std::string> args(argv + 1, argv + argc);
  return interleave::sim::MixingMain(args, environment);
}
