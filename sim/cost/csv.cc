#include "sim/cost/csv.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/line_reader.h"
#include "base/status_macros.h"

namespace interleave::sim {
namespace {

constexpr int64_t kLargestCount = 1'000'000'000'000;

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

absl::StatusOr<int64_t> TableRow::Count(size_t i) const {
  int64_t value;
  if (absl::SimpleAtoi(fields_[i], &value) && value >= 0 &&
      value <= kLargestCount) {
    return value;
  }
  return Error(absl::StrCat(columns_[i], " is \"", fields_[i].substr(0, 40),
                            "\"; expected a whole number from 0 to 10^12"));
}

absl::StatusOr<double> TableRow::Number(size_t i) const {
  double value;
  if (absl::SimpleAtod(fields_[i], &value) && std::isfinite(value)) {
    return value;
  }
  return Error(absl::StrCat(columns_[i], " is \"", fields_[i].substr(0, 40),
                            "\"; expected a number"));
}

absl::StatusOr<double> TableRow::NonNegative(size_t i) const {
  ASSIGN_OR_RETURN(const double value, Number(i));
  if (value >= 0 && value <= 1e12) return value;
  return Error(absl::StrCat(columns_[i], " is ", value,
                            "; expected a number from 0 to 10^12"));
}

absl::Status TableRow::Error(absl::string_view what) const {
  return absl::InvalidArgumentError(
      absl::StrCat(source_, ":", line_, ": ", what));
}

absl::Status ForEachCsvRow(
    absl::string_view text, absl::string_view source,
    absl::Span<const absl::string_view> columns,
    absl::FunctionRef<absl::Status(const TableRow&)> row) {
  LineReader lines(text, source);
  lines.Next();
  std::vector<absl::string_view> fields;
  Split(lines.line(), &fields);
  const size_t width = fields.size();
  ASSIGN_OR_RETURN(const std::vector<size_t> positions,
                   Positions(fields, source, columns));
  TableRow current(source, 1, columns);
  bool any = false;
  while (lines.Next()) {
    current.line_ = lines.number();
    if (lines.line().empty()) continue;
    Split(lines.line(), &fields);
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
