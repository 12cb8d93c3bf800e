#include "base/program.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <iostream>

namespace interleave {
namespace {

// Global, since a signal handler has nothing else.
std::atomic<bool> interrupted = false;

void OnInterrupt(int signal) { interrupted = true; }

}  // namespace

bool EnterUserFolder(const char* program) {
  const char* folder = std::getenv("BUILD_WORKING_DIRECTORY");
  if (folder == nullptr || chdir(folder) == 0) return true;
  std::cerr << program << ": cannot enter " << folder << "\n";
  return false;
}

std::function<bool()> CatchInterrupts() {
  std::signal(SIGINT, &OnInterrupt);
  std::signal(SIGTERM, &OnInterrupt);
  return [] { return interrupted.load(); };
}

}  // namespace interleave
