// CsvReader: a table of plain fields with a header, read row by row.
//
// Comma-separated, no quoting: the tables of this project hold numbers and
// names.  Spaces around a field are ignored.  Line ends as in LineReader.
//
//   CsvReader csv(text, path);
//   RETURN_IF_ERROR(csv.ReadHeader());
//   ASSIGN_OR_RETURN(const int tokens, csv.Column("tokens"));
//   while (true) {
//     ASSIGN_OR_RETURN(const bool more, csv.Next());
//     if (!more) break;
//     ASSIGN_OR_RETURN(const int64_t n, csv.Int(tokens, 1, 1000));
//   }

#ifndef BASE_CSV_H_
#define BASE_CSV_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/line_reader.h"

namespace interleave {

// Every error is InvalidArgument "name:line: what is wrong; remedy".
class CsvReader {
 public:
  // Both must outlive the reader.
  CsvReader(absl::string_view text, absl::string_view name)
      : lines_(text, name) {}

  // Reads the first line.  Refuses an empty text, an empty or repeated name.
  absl::Status ReadHeader();

  absl::Span<const absl::string_view> header() const { return header_; }

  // The position of a column that must be there.
  absl::StatusOr<int> Column(absl::string_view name) const;
  // The same for a column that may be absent: -1 then.
  int OptionalColumn(absl::string_view name) const;
  // Refuses any column that `known` lacks.
  absl::Status RefuseOtherColumns(
      absl::Span<const absl::string_view> known) const;

  // Moves to the next row; false at the end.  Refuses a row with more or fewer
  // fields than the header, and the header again.
  absl::StatusOr<bool> Next();

  // Fields of the current row.
  absl::string_view Text(int column) const { return fields_[column]; }
  absl::StatusOr<int64_t> Int(int column, int64_t low, int64_t high) const;
  absl::StatusOr<double> Double(int column, double low, double high) const;

  // "name:line: what" of the current line.
  absl::Status Error(absl::string_view what) const {
    return lines_.Error(what);
  }
  // "name:line: column what".
  absl::Status FieldError(int column, absl::string_view what) const;
  int64_t line_number() const { return lines_.number(); }

 private:
  absl::Status WrongFieldCount() const;

  LineReader lines_;
  std::vector<absl::string_view> header_;
  std::vector<absl::string_view> fields_;
};

}  // namespace interleave

#endif  // BASE_CSV_H_
