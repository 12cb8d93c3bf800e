#include "base/text_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace interleave {
namespace {

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

absl::Status FileError(const std::string& path, int error) {
  const std::string message =
      absl::StrCat(path, ": cannot read: ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EACCES) return absl::PermissionDeniedError(message);
  return absl::InvalidArgumentError(message);
}

}  // namespace

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  const std::unique_ptr<std::FILE, FileCloser> file(
      std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return FileError(path, errno);
  std::string contents;
  char buffer[1 << 16];
  size_t size;
  while ((size = std::fread(buffer, 1, sizeof(buffer), file.get())) > 0) {
    contents.append(buffer, size);
  }
  if (std::ferror(file.get())) return FileError(path, errno);
  return contents;
}

}  // namespace interleave
