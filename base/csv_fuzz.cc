// libFuzzer: any bytes are a table or an error, never a crash.

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/csv.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  interleave::CsvReader csv(
      absl::string_view(reinterpret_cast<const char*>(data), size), "input");
  if (!csv.ReadHeader().ok()) return 0;
  const int columns = static_cast<int>(csv.header().size());
  while (true) {
    const absl::StatusOr<bool> more = csv.Next();
    if (!more.ok() || !*more) return 0;
    for (int column = 0; column < columns; ++column) {
      const absl::StatusOr<int64_t> whole = csv.Int(column, -1000, 1000);
      const absl::StatusOr<double> number = csv.Double(column, -1000, 1000);
      // A whole number is a number too, and the same one.
      if (whole.ok()) CHECK_EQ(static_cast<double>(*whole), *number);
    }
  }
}
