// What every command-line program of ours does before it reads its flags.

#ifndef BASE_PROGRAM_H_
#define BASE_PROGRAM_H_

#include <functional>

namespace interleave {

// `bazel run` starts programs in a folder of its own; paths on the command line
// are the user's.  Goes to the user's folder; where that fails, says so on
// stderr, after the program's name, and returns false.
[[nodiscard]] bool EnterUserFolder(const char* program);

// From now on SIGINT and SIGTERM end nothing; the function tells whether one of
// them came, so that a program can stop with nothing half-written left behind.
std::function<bool()> CatchInterrupts();

}  // namespace interleave

#endif  // BASE_PROGRAM_H_
