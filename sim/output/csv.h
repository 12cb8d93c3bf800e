// Rows of comma-separated values, written without any locale.
//
// Times are integers of nanoseconds, so the decimals written are exact:
// milliseconds have 6, seconds 9.

#ifndef SIM_OUTPUT_CSV_H_
#define SIM_OUTPUT_CSV_H_

#include <charconv>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "base/sim_time.h"

namespace interleave::sim {

// One row after the other; fields are appended left to right.
class CsvRow {
 public:
  // Begins the next row.
  void Clear() {
    text_.clear();
    first_ = true;
  }
  // The row so far; ends in "\n" after End.
  const std::string& text() const { return text_; }

  CsvRow& Int(int64_t value) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
    return Raw(absl::string_view(digits, static_cast<size_t>(end - digits)));
  }
  CsvRow& Millis(SimDuration value) { return Decimal(value.nanos(), 6); }
  CsvRow& Seconds(SimTime value) { return Decimal(value.nanos(), 9); }
  CsvRow& Seconds(SimDuration value) { return Decimal(value.nanos(), 9); }
  // Shortest decimals that read back as the same number.
  CsvRow& Number(double value);
  // Quoted where it must be (RFC 4180).
  CsvRow& Text(absl::string_view value);
  CsvRow& Empty() { return Raw(""); }
  void End() { text_.push_back('\n'); }

 private:
  CsvRow& Raw(absl::string_view field) {
    if (!first_) text_.push_back(',');
    first_ = false;
    text_.append(field.data(), field.size());
    return *this;
  }
  CsvRow& Decimal(int64_t value, int decimals);

  std::string text_;
  bool first_ = true;
};

}  // namespace interleave::sim

#endif  // SIM_OUTPUT_CSV_H_
