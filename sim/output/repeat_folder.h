// Where runs that repeat each other go: runs/rate_7/orca/repeat_1, repeat_2.

#ifndef SIM_OUTPUT_REPEAT_FOLDER_H_
#define SIM_OUTPUT_REPEAT_FOLDER_H_

#include <cstddef>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace interleave::sim {

inline constexpr char kRepeat[] = "repeat_";

// Below the folder that stands for all of them; numbers from 1.
inline std::string RepeatFolder(size_t number) {
  return absl::StrCat(kRepeat, number);
}

// The folder that stands for all repeats of a run in this one, with "/" between
// names; itself where it repeats nothing.
inline absl::string_view WithoutRepeat(absl::string_view folder) {
  const size_t slash = folder.rfind('/');
  if (slash == absl::string_view::npos) {
    return absl::StartsWith(folder, kRepeat) ? "" : folder;
  }
  return absl::StartsWith(folder.substr(slash + 1), kRepeat)
             ? folder.substr(0, slash)
             : folder;
}

}  // namespace interleave::sim

#endif  // SIM_OUTPUT_REPEAT_FOLDER_H_
