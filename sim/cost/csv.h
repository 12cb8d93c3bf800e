// Numbers from CSV text with errors that name file, line and column.

#ifndef SIM_COST_CSV_H_
#define SIM_COST_CSV_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace interleave::sim {

// One line; valid during the call that receives it.
class TableRow {
 public:
  TableRow(absl::string_view source, int64_t line,
           absl::Span<const absl::string_view> columns)
      : source_(source), line_(line), columns_(columns) {}

  // The field of the i-th column asked for.
  absl::string_view Text(size_t i) const { return fields_[i]; }
  // A whole number from 0 to 10^12.
  absl::StatusOr<int64_t> Count(size_t i) const;
  // A finite number; not below 0 where so asked.
  absl::StatusOr<double> Number(size_t i) const;
  absl::StatusOr<double> NonNegative(size_t i) const;
  // Of the file, from 1.
  int64_t line() const { return line_; }
  // InvalidArgument "source:line: what".
  absl::Status Error(absl::string_view what) const;

 private:
  friend absl::Status ForEachCsvRow(
      absl::string_view text, absl::string_view source,
      absl::Span<const absl::string_view> columns,
      absl::FunctionRef<absl::Status(const TableRow&)> row);

  absl::string_view source_;
  int64_t line_;
  absl::Span<const absl::string_view> columns_;
  std::vector<absl::string_view> fields_;
};

// Calls `row` with the asked `columns` of each line after the header, in the
// order of `columns`; the file may order them otherwise and have more.  A byte
// order mark, CRLF, empty lines and a last line without newline are accepted;
// quotes are not.  Stops at the first error: of the format, of `row`, or that
// there is no row at all.
absl::Status ForEachCsvRow(
    absl::string_view text, absl::string_view source,
    absl::Span<const absl::string_view> columns,
    absl::FunctionRef<absl::Status(const TableRow&)> row);

}  // namespace interleave::sim

#endif  // SIM_COST_CSV_H_
