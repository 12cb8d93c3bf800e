#include "scheduler/request.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/mix64.h"

namespace interleave::scheduler {
namespace {

// Token ids of `content` from `position` on.
void Fill(uint64_t content, int64_t position, absl::Span<int32_t> out) {
  const uint64_t seed = Mix64(content + kMix64Step);
  for (int32_t& token : out) {
    token = static_cast<int32_t>(
        Mix64(seed + static_cast<uint64_t>(position++)) >> 33);
  }
}

}  // namespace

absl::string_view PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kWaiting:
      return "waiting";
    case Phase::kPrefill:
      return "prefilling";
    case Phase::kDecode:
      return "decoding";
    case Phase::kSwapped:
      return "swapped out";
    case Phase::kDone:
      return "done";
  }
  return "in no phase";
}

void RequestTokens::Read(int64_t begin, absl::Span<int32_t> out) const {
  int64_t segment_begin = 0;
  for (const PromptSegment& segment : spec_->segments) {
    if (out.empty()) return;
    const int64_t segment_end = segment_begin + segment.num_tokens;
    if (begin < segment_end) {
      const int64_t count = std::min<int64_t>(segment_end - begin,
                                              static_cast<int64_t>(out.size()));
      // Shifted by one bit: an even content is a name, an odd one a request.
      Fill(static_cast<uint64_t>(segment.content_id) << 1,
           begin - segment_begin, out.subspan(0, static_cast<size_t>(count)));
      out.remove_prefix(static_cast<size_t>(count));
      begin += count;
    }
    segment_begin = segment_end;
  }
  Fill(static_cast<uint64_t>(spec_->id) << 1 | 1, begin, out);
}

}  // namespace interleave::scheduler
