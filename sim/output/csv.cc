#include "sim/output/csv.h"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace interleave::sim {

CsvRow& CsvRow::Number(double value) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
  return Raw(absl::string_view(digits, static_cast<size_t>(end - digits)));
}

CsvRow& CsvRow::Text(absl::string_view value) {
  if (value.find_first_of(",\"\r\n") == absl::string_view::npos) {
    return Raw(value);
  }
  std::string quoted = "\"";
  quoted += absl::StrReplaceAll(value, {{"\"", "\"\""}});
  quoted += '"';
  return Raw(quoted);
}

CsvRow& CsvRow::Decimal(int64_t value, int decimals) {
  char digits[32];
  char* const last = digits + sizeof(digits);
  char* first = last;
  uint64_t rest = value < 0 ? uint64_t{0} - static_cast<uint64_t>(value)
                            : static_cast<uint64_t>(value);
  for (int i = 0; i < decimals; ++i, rest /= 10) {
    *--first = static_cast<char>('0' + rest % 10);
  }
  *--first = '.';
  do {
    *--first = static_cast<char>('0' + rest % 10);
    rest /= 10;
  } while (rest != 0);
  if (value < 0) *--first = '-';
  return Raw(absl::string_view(first, static_cast<size_t>(last - first)));
}

}  // namespace interleave::sim
