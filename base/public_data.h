// Where public traces and measurements are, for tests and benchmarks on them.

#ifndef BASE_PUBLIC_DATA_H_
#define BASE_PUBLIC_DATA_H_

#include <cstdlib>
#include <string>

namespace interleave {

// The folder that INTERLEAVE_DATA names; empty where it names none.
inline std::string PublicDataFolder() {
  const char* const folder = std::getenv("INTERLEAVE_DATA");
  return folder == nullptr ? "" : folder;
}

}  // namespace interleave

#endif  // BASE_PUBLIC_DATA_H_
