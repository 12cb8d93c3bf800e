// ParseLinearChoices over any bytes: an error, or choices that are written and
// read back as they were.

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "sim/kernel_executor/linear_choices.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto choices = interleave::sim::ParseLinearChoices(
      absl::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!choices.ok()) return 0;
  const auto again = interleave::sim::ParseLinearChoices(
      interleave::sim::FormatLinearChoices(*choices), "again");
  CHECK(again.ok());
  CHECK(*again == *choices);
  return 0;
}
