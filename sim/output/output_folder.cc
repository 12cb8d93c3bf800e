#include "sim/output/output_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace interleave::sim {
namespace fs = std::filesystem;
namespace {

absl::Status Refusal(const std::string& path, const std::error_code& error) {
  const std::string message = absl::StrCat(
      path, ": cannot be written: ", error.message(), "; name another folder");
  return error == std::errc::permission_denied
             ? absl::PermissionDeniedError(message)
             : absl::NotFoundError(message);
}

// Absolute, symbolic links followed, no slash at the end.
absl::StatusOr<fs::path> Resolve(absl::string_view path) {
  if (path.empty()) {
    return absl::InvalidArgumentError("the output folder has no name");
  }
  std::error_code error;
  fs::path resolved =
      fs::weakly_canonical(fs::absolute(std::string(path), error), error);
  if (error) return Refusal(std::string(path), error);
  if (!resolved.has_filename()) resolved = resolved.parent_path();
  if (!resolved.has_filename()) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(path), ": is no place for output"));
  }
  return resolved;
}

absl::Status CheckFree(const fs::path& path, bool overwrite) {
  std::error_code error;
  if (!fs::exists(path, error)) return absl::OkStatus();
  if (!fs::is_directory(path, error)) {
    return absl::AlreadyExistsError(absl::StrCat(
        path.string(), ": exists and is no folder; name another folder"));
  }
  const bool empty = fs::is_empty(path, error);
  if (error) return Refusal(path.string(), error);
  if (!empty && !overwrite) {
    return absl::AlreadyExistsError(
        absl::StrCat(path.string(),
                     ": exists and is not empty; name another folder, or pass "
                     "--overwrite to replace the results in it"));
  }
  return absl::OkStatus();
}

}  // namespace

// ---- OutputFile ----

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Open(
    const std::string& path, absl::string_view shown) {
  const int descriptor =
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    return absl::DataLossError(
        absl::StrCat(shown, ": cannot be written: ", std::strerror(errno)));
  }
  return absl::WrapUnique(new OutputFile(shown, descriptor));
}

OutputFile::OutputFile(absl::string_view shown, int descriptor)
    : shown_(shown), descriptor_(descriptor) {
  buffer_.reserve(kBufferBytes);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void OutputFile::Fail(absl::string_view what) {
  if (status_.ok()) {
    status_ = absl::DataLossError(
        absl::StrCat(shown_, ": cannot be written: ", what));
  }
}

void OutputFile::Flush() {
  absl::string_view rest = buffer_;
  while (!rest.empty() && status_.ok()) {
    const ssize_t written = write(descriptor_, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      Fail(std::strerror(errno));
    }
  }
  buffer_.clear();
}

absl::Status OutputFile::Close() {
  if (descriptor_ < 0) return status_;
  Flush();
  // Some file systems tell of a full disk only here.
  if (close(descriptor_) != 0) Fail(std::strerror(errno));
  descriptor_ = -1;
  return status_;
}

// ---- OutputFolder ----

absl::StatusOr<std::unique_ptr<OutputFolder>> OutputFolder::Create(
    absl::string_view path, const Options& options) {
  ASSIGN_OR_RETURN(const fs::path target, Resolve(path));
  RETURN_IF_ERROR(CheckFree(target, options.overwrite));
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  if (error) return Refusal(target.parent_path().string(), error);
  std::string temporary =
      (target.parent_path() /
       absl::StrCat(".", target.filename().string(), ".partial-XXXXXX"))
          .string();
  if (mkdtemp(temporary.data()) == nullptr) {
    return Refusal(target.parent_path().string(),
                   std::error_code(errno, std::generic_category()));
  }
  // mkdtemp keeps others out; results are for whom the user's umask says.
  const mode_t mask = umask(0);
  umask(mask);
  fs::permissions(temporary, static_cast<fs::perms>(0777 & ~mask), error);
  return absl::WrapUnique(
      new OutputFolder(target.string(), std::move(temporary), options));
}

OutputFolder::~OutputFolder() {
  if (temporary_.empty()) return;
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

absl::StatusOr<OutputFile*> OutputFolder::AddFile(absl::string_view name) {
  const fs::path path = fs::path(temporary_) / std::string(name);
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) {
    return absl::DataLossError(absl::StrCat(
        path.parent_path().string(), ": cannot be made: ", error.message()));
  }
  ASSIGN_OR_RETURN(
      std::unique_ptr<OutputFile> file,
      OutputFile::Open(path.string(), absl::StrCat(path_, "/", name)));
  const std::lock_guard<std::mutex> lock(mutex_);
  files_.push_back(std::move(file));
  return files_.back().get();
}

absl::Status OutputFolder::AddFile(absl::string_view name,
                                   absl::string_view content) {
  ASSIGN_OR_RETURN(OutputFile* const file, AddFile(name));
  file->Append(content);
  return file->Close();
}

absl::Status OutputFolder::Commit() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& file : files_) RETURN_IF_ERROR(file->Close());
  }
  RETURN_IF_ERROR(CheckFree(path_, options_.overwrite));
  std::error_code error;
  const bool occupied = fs::exists(path_, error) && !fs::is_empty(path_, error);
  if (occupied) {
    RETURN_IF_ERROR(ReplaceOld());
  } else {
    fs::rename(temporary_, path_, error);
    if (error) {
      return absl::DataLossError(
          absl::StrCat(path_, ": cannot be put in place: ", error.message()));
    }
  }
  temporary_.clear();
  return absl::OkStatus();
}

// The old folder steps aside, so that at no moment old and new results stand
// under one name; what is not ours moves into the new one.
absl::Status OutputFolder::ReplaceOld() {
  const std::string aside = absl::StrCat(temporary_, ".old");
  std::error_code error;
  fs::rename(path_, aside, error);
  if (!error) {
    fs::rename(temporary_, path_, error);
    std::error_code ignored;
    if (error) fs::rename(aside, path_, ignored);
  }
  if (error) {
    return absl::DataLossError(
        absl::StrCat(path_, ": cannot be replaced: ", error.message()));
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(aside)) {
    const std::string name = entry.path().filename().string();
    const fs::path kept = fs::path(path_) / name;
    const bool replaced =
        fs::exists(kept, error) ||
        std::find(options_.replaceable.begin(), options_.replaceable.end(),
                  name) != options_.replaceable.end();
    if (replaced) continue;
    fs::rename(entry.path(), kept, error);
    if (error) {
      temporary_.clear();
      return absl::DataLossError(absl::StrCat(
          entry.path().string(), ": cannot be kept: ", error.message()));
    }
  }
  fs::remove_all(aside, error);
  return absl::OkStatus();
}

}  // namespace interleave::sim
