#include "sim/cost/gzip.h"

#include <zlib.h>

#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace interleave::sim {

absl::StatusOr<std::string> ReadMaybeGzip(const std::string& path,
                                          size_t max_bytes) {
  errno = 0;
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) {
    return absl::NotFoundError(
        absl::StrCat(path, ": cannot be opened: ",
                     errno != 0 ? std::strerror(errno) : "out of memory"));
  }
  absl::Cleanup close = [file] { gzclose_r(file); };
  std::string text;
  char buffer[1 << 16];
  int n;
  while ((n = gzread(file, buffer, sizeof(buffer))) > 0) {
    text.append(buffer, static_cast<size_t>(n));
    if (text.size() > max_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": more than ", max_bytes, " bytes of text"));
    }
  }
  int code;
  const char* message = gzerror(file, &code);
  if (code == Z_ERRNO) {
    return absl::NotFoundError(
        absl::StrCat(path, ": cannot be read: ", std::strerror(errno)));
  }
  if (code != Z_OK) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": damaged or cut off (", message, "); fetch the file again"));
  }
  return text;
}

}  // namespace interleave::sim
