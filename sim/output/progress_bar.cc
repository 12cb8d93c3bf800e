#include "sim/output/progress_bar.h"

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <ostream>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"

namespace interleave::sim {
namespace {

constexpr double kWidth = 40;
// Back to the first column; wipe the line.
constexpr char kWipe[] = "\r\x1b[K";

}  // namespace

ProgressBar::~ProgressBar() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (last_drawn_ != absl::InfinitePast()) *out_ << kWipe << std::flush;
}

void ProgressBar::UpdateAt(double share, absl::Time now) {
  if (out_ == nullptr || now - begin_ < absl::Seconds(1)) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (now - last_drawn_ < absl::Milliseconds(100)) return;
  last_drawn_ = now;
  const double seconds = absl::ToDoubleSeconds(now - begin_);
  if (share < 0) {
    *out_ << kWipe << absl::StrFormat("running, %.0f s", seconds) << std::flush;
    return;
  }
  share = std::min(share, 1.0);
  const size_t filled = static_cast<size_t>(share * kWidth);
  std::string bar(filled, '#');
  bar.resize(static_cast<size_t>(kWidth), '.');
  *out_ << kWipe
        << absl::StrFormat("[%s] %3.0f%%, %.0f s", bar, 100 * share, seconds)
        << std::flush;
}

}  // namespace interleave::sim
