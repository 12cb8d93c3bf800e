// OutputFolder: a folder of results that is complete or absent.
//
//   ASSIGN_OR_RETURN(auto folder, OutputFolder::Create("out", {}));
//   ASSIGN_OR_RETURN(OutputFile* const file, folder->AddFile("rows.csv"));
//   file->Append("a,b\n");
//   RETURN_IF_ERROR(folder->Commit());
//
// Files are written into a hidden sibling of the folder, which takes the
// folder's name when all of them are closed without an error, and is removed
// otherwise.
//
// The folder is thread-safe; a file belongs to one thread at a time.

#ifndef SIM_OUTPUT_OUTPUT_FOLDER_H_
#define SIM_OUTPUT_OUTPUT_FOLDER_H_

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace interleave::sim {

// A file written front to back through a buffer.  The first failure is kept,
// and what is appended after it is dropped.
class OutputFile {
 public:
  // `shown` is the file's name in messages.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Open(
      const std::string& path, absl::string_view shown);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  void Append(absl::string_view data) {
    if (buffer_.size() + data.size() > kBufferBytes) Flush();
    buffer_.append(data.data(), data.size());
  }
  // DataLoss names the file and the reason (a full disk, a quota).
  const absl::Status& status() const { return status_; }
  // Writes what is left; the outcome of the whole file.  Closing again is
  // harmless.
  absl::Status Close();

 private:
  static constexpr size_t kBufferBytes = size_t{1} << 18;

  OutputFile(absl::string_view shown, int descriptor);
  void Flush();
  void Fail(absl::string_view what);

  const std::string shown_;
  int descriptor_;
  std::string buffer_;
  absl::Status status_;
};

class OutputFolder {
 public:
  struct Options {
    // What to do with a folder that exists and is not empty: replace in it what
    // bears the name of something written now, or one of `replaceable`, and
    // keep everything else; where false, refuse.
    bool overwrite = false;
    std::vector<std::string> replaceable;
  };

  // Makes missing parents.  AlreadyExists for a folder that is not empty
  // (unless `overwrite`) and for a file; PermissionDenied or NotFound where
  // nothing can be written.
  static absl::StatusOr<std::unique_ptr<OutputFolder>> Create(
      absl::string_view path, const Options& options);
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  // Removes everything unless committed.
  ~OutputFolder();

  // The folder in the end, absolute.
  const std::string& path() const { return path_; }

  // A new file; `name` may hold folders, which are made: "seeds/1/rows.csv".
  // The file lives as long as the folder object.
  absl::StatusOr<OutputFile*> AddFile(absl::string_view name);
  absl::Status AddFile(absl::string_view name, absl::string_view content);

  // Closes all files and puts the folder in place.  Nobody may be writing.
  absl::Status Commit();

 private:
  OutputFolder(std::string path, std::string temporary, const Options& options)
      : path_(std::move(path)),
        temporary_(std::move(temporary)),
        options_(options) {}
  absl::Status ReplaceOld();

  const std::string path_;
  std::string temporary_;
  const Options options_;
  // Guards files_.  Not absl::Mutex: the system's Abseil is not built for
  // ThreadSanitizer, which then sees no lock.
  std::mutex mutex_;
  std::vector<std::unique_ptr<OutputFile>> files_;
};

}  // namespace interleave::sim

#endif  // SIM_OUTPUT_OUTPUT_FOLDER_H_
