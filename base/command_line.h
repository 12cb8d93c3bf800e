// Flags of a command-line tool, as a table.
//
// absl::ParseCommandLine keeps flags in globals, lets the last of two equal
// flags win and ends the process, with status 1, on a bad one.  Our tools are
// called as functions by their tests, have flags that repeat, and promise exit
// status 2 for bad input; so they parse with this.

#ifndef BASE_COMMAND_LINE_H_
#define BASE_COMMAND_LINE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace interleave {

struct Flag {
  std::string name;
  // What stands behind "=" in the help; empty for a switch, which may stand
  // alone and takes "true" or "false".
  std::string value;
  std::string help;
  // Called for each occurrence, in order.
  std::function<absl::Status(absl::string_view)> set;
};

// A flag that sets a string; a switch.
Flag StringFlag(absl::string_view name, absl::string_view value,
                absl::string_view help, std::string* target);
Flag SwitchFlag(absl::string_view name, absl::string_view help, bool* target);

// Takes "--name=value", "--name value", "--switch" and "--noswitch".
// InvalidArgument for anything else, naming the flag that comes closest.
absl::Status ParseFlags(absl::Span<const Flag> flags,
                        absl::Span<const std::string> args);

// What a tool that ends with `status` tells the shell: 0; 2 for bad input; 130,
// as for SIGINT, where it was cancelled; 1 for any other failure.
int ExitStatus(const absl::Status& status);

// A line or more for each flag.
std::string FlagHelp(absl::Span<const Flag> flags);

// The name among `names` that `name` most likely was meant to be, or "".
std::string ClosestName(absl::string_view name,
                        absl::Span<const std::string> names);

}  // namespace interleave

#endif  // BASE_COMMAND_LINE_H_
