// ProgressBar: shows on a terminal how far something long has come.

#ifndef SIM_OUTPUT_PROGRESS_BAR_H_
#define SIM_OUTPUT_PROGRESS_BAR_H_

#include <mutex>
#include <ostream>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace interleave::sim {

// Thread-safe.
class ProgressBar {
 public:
  // Writes to `out`, which must outlive it; to nobody where it is nullptr.
  explicit ProgressBar(std::ostream* out) : out_(out), begin_(absl::Now()) {}
  // Wipes what it has drawn.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Draws at most ten times a second, and not at all in the first second.
  // `share` is in [0, 1], or negative when nobody knows.
  void Update(double share) { UpdateAt(share, absl::Now()); }
  // The same with a clock of the caller's.
  void UpdateAt(double share, absl::Time now);

 private:
  std::ostream* const out_;
  const absl::Time begin_;
  // Guards last_drawn_ and out_.  A std::mutex, since ThreadSanitizer does not
  // see the locks of the system's Abseil.
  std::mutex mutex_;
  absl::Time last_drawn_ = absl::InfinitePast();
};

}  // namespace interleave::sim

#endif  // SIM_OUTPUT_PROGRESS_BAR_H_
