// LineReader: the lines of a text, numbered, for parsers that name the line
// where something is wrong.

#ifndef BASE_LINE_READER_H_
#define BASE_LINE_READER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace interleave {

// Accepts LF and CRLF, a last line without an end, and a UTF-8 byte order mark
// before the first line.  Empty lines after the last one are not lines.
class LineReader {
 public:
  // `name` stands in messages, usually the path.  Both must outlive the reader.
  LineReader(absl::string_view text, absl::string_view name);

  // Moves to the next line; false at the end.
  bool Next();

  // The current line, without its end.
  absl::string_view line() const { return line_; }
  // Counts from 1; 0 before the first line.
  int64_t number() const { return number_; }
  absl::string_view name() const { return name_; }

  // InvalidArgument "name:number: what".
  absl::Status Error(absl::string_view what) const;

 private:
  absl::string_view rest_;
  absl::string_view name_;
  absl::string_view line_;
  int64_t number_ = 0;
};

// `text` as it can stand in a message: in quotes, control and non-ASCII bytes
// escaped, cut when it is long.
std::string QuoteForMessage(absl::string_view text);

}  // namespace interleave

#endif  // BASE_LINE_READER_H_
