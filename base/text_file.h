// Reading whole text files.

#ifndef BASE_TEXT_FILE_H_
#define BASE_TEXT_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace interleave {

// The bytes of the file at `path`.  NotFound when there is none; else the
// system's reason (a folder, no permission, a read error), with the path.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

}  // namespace interleave

#endif  // BASE_TEXT_FILE_H_
