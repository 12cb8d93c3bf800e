#include "base/csv.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/parse_number.h"

namespace interleave {
namespace {

void SplitFields(absl::string_view line,
                 std::vector<absl::string_view>& fields) {
  fields.clear();
  while (true) {
    const void* comma =
        line.empty() ? nullptr : std::memchr(line.data(), ',', line.size());
    if (comma == nullptr) break;
    const size_t size = static_cast<const char*>(comma) - line.data();
    fields.push_back(absl::StripAsciiWhitespace(line.substr(0, size)));
    line.remove_prefix(size + 1);
  }
  fields.push_back(absl::StripAsciiWhitespace(line));
}

}  // namespace

absl::Status CsvReader::ReadHeader() {
  if (!lines_.Next()) {
    return absl::InvalidArgumentError(absl::StrCat(
        lines_.name(),
        ":1: the file is empty; it must start with a line of column names"));
  }
  SplitFields(lines_.line(), header_);
  for (size_t i = 0; i < header_.size(); ++i) {
    if (header_[i].empty()) {
      return Error(absl::StrCat("column ", i + 1,
                                " has no name; name it or remove its comma"));
    }
    if (std::find(header_.begin(), header_.begin() + i, header_[i]) !=
        header_.begin() + i) {
      return Error(absl::StrCat("two columns are named ",
                                QuoteForMessage(header_[i]),
                                "; remove or rename one"));
    }
  }
  return absl::OkStatus();
}

int CsvReader::OptionalColumn(absl::string_view name) const {
  const auto it = std::find(header_.begin(), header_.end(), name);
  return it == header_.end() ? -1 : static_cast<int>(it - header_.begin());
}

absl::StatusOr<int> CsvReader::Column(absl::string_view name) const {
  const int column = OptionalColumn(name);
  if (column < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(lines_.name(), ":1: column ", name,
                     " is missing; the first line must name it, and names ",
                     QuoteForMessage(absl::StrJoin(header_, ","))));
  }
  return column;
}

absl::Status CsvReader::RefuseOtherColumns(
    absl::Span<const absl::string_view> known) const {
  for (const absl::string_view name : header_) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          lines_.name(), ":1: unknown column ", QuoteForMessage(name),
          "; known are ", absl::StrJoin(known, ", ")));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> CsvReader::Next() {
  if (!lines_.Next()) return false;
  SplitFields(lines_.line(), fields_);
  if (fields_.size() != header_.size()) return WrongFieldCount();
  if (fields_[0] == header_[0] && fields_ == header_) {
    return Error("the header again; remove this line");
  }
  return true;
}

absl::Status CsvReader::WrongFieldCount() const {
  if (absl::StripAsciiWhitespace(lines_.line()).empty()) {
    return Error("an empty line amid the rows; remove it");
  }
  return Error(absl::StrCat(
      fields_.size(), fields_.size() == 1 ? " field" : " fields",
      " where the header has ", header_.size(), "; ",
      fields_.size() < header_.size() ? "is the line cut short?"
                                      : "quoted commas are not supported"));
}

absl::StatusOr<int64_t> CsvReader::Int(int column, int64_t low,
                                       int64_t high) const {
  absl::StatusOr<int64_t> value = ParseInt(fields_[column], low, high);
  if (!value.ok()) return FieldError(column, value.status().message());
  return value;
}

absl::StatusOr<double> CsvReader::Double(int column, double low,
                                         double high) const {
  absl::StatusOr<double> value = ParseDouble(fields_[column], low, high);
  if (!value.ok()) return FieldError(column, value.status().message());
  return value;
}

absl::Status CsvReader::FieldError(int column, absl::string_view what) const {
  return Error(absl::StrCat(header_[column], " ", what));
}

}  // namespace interleave
