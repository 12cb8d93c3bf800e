#include "sim/cost/csv.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace interleave::sim {
namespace {

constexpr int64_t kLargestCount = 1'000'000'000'000;

// Takes the next line, without its end, off `text`.
absl::string_view TakeLine(absl::string_view* text) {
  const size_t end = text->find('\n');
  absl::string_view line = text->substr(0, end);
  text->remove_prefix(end == absl::string_view::npos ? text->size() : end + 1);
  if (absl::EndsWith(line, "\r")) line.remove_suffix(1);
  return line;
}

void Split(absl::string_view line, std::vector<absl::string_view>* fields) {
  fields->clear();
  while (true) {
    const size_t comma = line.find(',');
    fields->push_back(line.substr(0, comma));
    if (comma == absl::string_view::npos) return;
    line.remove_prefix(comma + 1);
  }
}

absl::Status HeaderError(absl::string_view source, absl::string_view column,
                         absl::Span<const absl::string_view> columns) {
  return absl::InvalidArgumentError(absl::StrCat(
      source, ":1: no column \"", column, "\"; the first line must name ",
      absl::StrJoin(columns, ",")));
}

// Where each asked column stands in the header.
absl::StatusOr<std::vector<size_t>> Positions(
    const std::vector<absl::string_view>& header, absl::string_view source,
    absl::Span<const absl::string_view> columns) {
  std::vector<size_t> positions;
  for (const absl::string_view column : columns) {
    const auto found = std::find(header.begin(), header.end(), column);
    if (found == header.end()) return HeaderError(source, column, columns);
    positions.push_back(static_cast<size_t>(found - header.begin()));
  }
  return positions;
}

}  // namespace

absl::StatusOr<int64_t> CsvRow::Count(size_t i) const {
  int64_t value;
  if (absl::SimpleAtoi(fields_[i], &value) && value >= 0 &&
      value <= kLargestCount) {
    return value;
  }
  return Error(absl::StrCat(columns_[i], " is \"", fields_[i].substr(0, 40),
                            "\"; expected a whole number from 0 to 10^12"));
}

absl::StatusOr<double> CsvRow::Number(size_t i) const {
  double value;
  if (absl::SimpleAtod(fields_[i], &value) && std::isfinite(value)) {
    return value;
  }
  return Error(absl::StrCat(columns_[i], " is \"", fields_[i].substr(0, 40),
                            "\"; expected a number"));
}

absl::StatusOr<double> CsvRow::NonNegative(size_t i) const {
  ASSIGN_OR_RETURN(const double value, Number(i));
  if (value >= 0 && value <= 1e12) return value;
  return Error(absl::StrCat(columns_[i], " is ", value,
                            "; expected a number from 0 to 10^12"));
}

absl::Status CsvRow::Error(absl::string_view what) const {
  return absl::InvalidArgumentError(
      absl::StrCat(source_, ":", line_, ": ", what));
}

absl::Status ForEachCsvRow(absl::string_view text, absl::string_view source,
                           absl::Span<const absl::string_view> columns,
                           absl::FunctionRef<absl::Status(const CsvRow&)> row) {
  if (absl::StartsWith(text, "\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<absl::string_view> fields;
  Split(TakeLine(&text), &fields);
  const size_t width = fields.size();
  ASSIGN_OR_RETURN(const std::vector<size_t> positions,
                   Positions(fields, source, columns));
  CsvRow current(source, 1, columns);
  bool any = false;
  while (!text.empty()) {
    const absl::string_view line = TakeLine(&text);
    ++current.line_;
    if (line.empty()) continue;
    Split(line, &fields);
    if (fields.size() != width) {
      return current.Error(absl::StrCat(fields.size(),
                                        " fields; the header has ", width,
                                        "; the file may have been cut off"));
    }
    current.fields_.clear();
    for (const size_t position : positions) {
      current.fields_.push_back(fields[position]);
    }
    RETURN_IF_ERROR(row(current));
    any = true;
  }
  if (any) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(source, ":1: no rows below the header"));
}

}  // namespace interleave::sim
