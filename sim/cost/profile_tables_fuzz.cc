// The parsers of profile_tables.h and csv.h over any bytes: an error or tables
// that answer finite times.  The first byte picks the parser.

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/sim_time.h"
#include "sim/cost/profile_tables.h"
#include "sim/cost/throttle.h"

namespace interleave::sim {
namespace {

void Attention(absl::string_view text) {
  const auto tables = ParseAttention(text, "fuzz");
  if (!tables.ok()) return;
  bool outside = false;
  CHECK(std::isfinite(tables->prefill.At({100, 3'000}, &outside)));
  CHECK(std::isfinite(tables->decode.At({7, 900}, &outside)));
  if (tables->mixed.empty()) return;
  CHECK(std::isfinite(tables->mixed.At({100, 3'000, 7, 900}, &outside)));
}

void Layers(absl::string_view text) {
  const auto curves = ParseLayerCurves(text, "fuzz", "tokens");
  if (!curves.ok()) return;
  for (const auto& [layer, curve] : *curves) {
    bool outside = false;
    CHECK(std::isfinite(curve.At(77, &outside)));
  }
}

void Skew(absl::string_view text) {
  const auto skew = ParseSkewFit(text, "fuzz");
  if (!skew.ok()) return;
  CHECK(std::isfinite(skew->Alpha({16, 5, 0.3, 2'000, 100})));
}

void Slowdown(absl::string_view text) {
  const auto table = ParseThrottle(text, "fuzz");
  if (!table.ok()) return;
  const Throttle throttle(*table);
  const double state = throttle.After(2'000, SimDuration::Millis(25), 0);
  CHECK(state >= 0 && state <= 1);
  CHECK(throttle.Slowdown(300) >= 0);
  const double mean = throttle.MeanState(300, 25'000, state);
  CHECK(mean >= 0 && mean <= 1);
}

void WholeBatches(absl::string_view text) {
  const auto levels = ParseLevels(text, "fuzz");
  if (!levels.ok()) return;
  for (const int64_t size : {1, 512, 1'000'000'000}) {
    CHECK(levels->with_prefill.At(size) > 0);
    CHECK(levels->decodes_alone.At(size) > 0);
  }
}

}  // namespace
}  // namespace interleave::sim

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view text(reinterpret_cast<const char*>(data) + 1,
                               size - 1);
  switch (data[0]) {
    case 'a':
      interleave::sim::Attention(text);
      break;
    case 'l':
      interleave::sim::Layers(text);
      break;
    case 's':
      interleave::sim::Skew(text);
      break;
    case 'u':
      (void)interleave::sim::ParseLayerUses(text, "fuzz");
      break;
    case 'h':
      (void)interleave::sim::ParseHostOverhead(text, "fuzz");
      break;
    case 't':
      interleave::sim::Slowdown(text);
      break;
    case 'v':
      interleave::sim::WholeBatches(text);
      break;
    default:
      interleave::sim::ParseMeta(text);
  }
  return 0;
}
