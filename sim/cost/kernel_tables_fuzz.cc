// The parsers of kernel_tables.h over any bytes: an error or tables that answer
// finite times.  The first byte picks the parser.

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "sim/cost/kernel_tables.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using interleave::sim::ParseAllReduce;
  using interleave::sim::ParseAttentionKernels;
  using interleave::sim::ParseGemm;
  if (size == 0) return 0;
  const absl::string_view text(reinterpret_cast<const char*>(data) + 1,
                               size - 1);
  bool outside = false;
  if (data[0] == 'g') {
    const auto grid = ParseGemm(text, "fuzz", "fp8");
    if (grid.ok()) CHECK(std::isfinite(grid->At({100, 200, 3}, &outside)));
  } else if (data[0] == 'a') {
    const auto grid = ParseAttentionKernels(text, "fuzz", {8, 128, "fp8"});
    if (grid.ok()) CHECK(std::isfinite(grid->At({32, 5, 900}, &outside)));
  } else {
    const auto curve = ParseAllReduce(text, "fuzz", "vllm_graph", 2);
    if (curve.ok()) CHECK(std::isfinite(curve->At(5'000, &outside)));
  }
  return 0;
}
