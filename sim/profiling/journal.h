// Journal: the measurements of a profile as they are made, in a text file, so
// that a profiler that was stopped goes on where it was.
//
//   # interleave profile: llama3.1_8b on NVIDIA H200, driver 580.159.04
//   512@1024|64x2048|all,43917000,38000
//
// A line goes to the system as soon as it is complete, and to the disk at least
// twice a second: a process that dies loses nothing, a machine that does at
// most half a second.

#ifndef SIM_PROFILING_JOURNAL_H_
#define SIM_PROFILING_JOURNAL_H_

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "sim/profiling/batch_timer.h"

namespace interleave::sim {

class Journal {
 public:
  // Opens the journal at `path`, or starts one, of measurements of `subject`
  // (one line of text).  A last line that is not complete is dropped.
  // FailedPrecondition: the file is of another subject.  InvalidArgument names
  // the line that is none of a journal.
  static absl::StatusOr<std::unique_ptr<Journal>> Open(
      const std::string& path, absl::string_view subject);
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal();

  std::optional<BatchTime> Find(const std::string& key) const;
  // DataLoss where the file cannot be written.
  absl::Status Add(const std::string& key, BatchTime time);
  // Lines found when it was opened.
  int64_t resumed() const { return resumed_; }

 private:
  Journal(std::string path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor) {}

  absl::Status Load(absl::string_view text, absl::string_view subject);
  absl::Status Write(absl::string_view line);

  const std::string path_;
  const int descriptor_;
  std::map<std::string, BatchTime> times_;
  int64_t resumed_ = 0;
  absl::Time last_sync_ = absl::InfinitePast();
};

}  // namespace interleave::sim

#endif  // SIM_PROFILING_JOURNAL_H_
