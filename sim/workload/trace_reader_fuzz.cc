// libFuzzer: whatever the bytes, every format's parser refuses them with a
// message that names the input, or returns requests that keep its promises.

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/sim_time.h"
#include "scheduler/request_spec.h"
#include "sim/workload/trace_reader.h"

namespace interleave::sim {
namespace {

void CheckRequests(const TraceReadResult& result) {
  CHECK(!result.requests.empty());
  SimTime last = SimTime::Zero();
  for (const scheduler::RequestSpec& spec : result.requests) {
    CHECK(spec.arrival >= last);
    last = spec.arrival;
    CHECK_GE(spec.prompt_tokens, 1);
    CHECK_GE(spec.output_tokens, 1);
    int64_t named = 0;
    for (const scheduler::PromptSegment& segment : spec.segments) {
      CHECK_GE(segment.num_tokens, 1);
      named += segment.num_tokens;
    }
    CHECK_LE(named, spec.prompt_tokens);
  }
}

}  // namespace
}  // namespace interleave::sim

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using ::interleave::sim::TraceFormat;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  for (const TraceFormat format :
       {TraceFormat::kAzure2023, TraceFormat::kMooncake, TraceFormat::kLengths,
        TraceFormat::kReplay, TraceFormat::kRequests}) {
    const absl::StatusOr<interleave::sim::TraceReadResult> result =
        interleave::sim::ParseTrace(text, "input", format);
    if (result.ok()) {
      interleave::sim::CheckRequests(*result);
    } else {
      CHECK(absl::StartsWith(result.status().message(), "input:"));
    }
  }
  interleave::sim::GuessTraceFormat(text, "input").status().IgnoreError();
  return 0;
}
