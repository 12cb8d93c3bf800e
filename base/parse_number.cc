#include "base/parse_number.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <system_error>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/line_reader.h"

namespace interleave {
namespace {

absl::Status Wrong(absl::string_view text, absl::string_view what) {
  if (text.empty()) return absl::InvalidArgumentError("is empty");
  return absl::InvalidArgumentError(
      absl::StrCat(QuoteForMessage(text), " ", what));
}

template <typename Number>
absl::StatusOr<Number> Parse(absl::string_view text, Number low, Number high,
                             absl::string_view kind) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range && rest == end) {
    return Wrong(text, absl::StrCat("is out of range: it must be in [", low,
                                    ", ", high, "]"));
  }
  if (error != std::errc() || rest != end || text.empty()) {
    return Wrong(text, absl::StrCat("is not ", kind));
  }
  // NaN compares false.
  if (!(value >= low && value <= high)) {
    return Wrong(text, absl::StrCat("must be in [", low, ", ", high, "]"));
  }
  return value;
}

}  // namespace

absl::StatusOr<int64_t> ParseInt(absl::string_view text, int64_t low,
                                 int64_t high) {
  return Parse<int64_t>(text, low, high, "a whole number");
}

absl::StatusOr<double> ParseDouble(absl::string_view text, double low,
                                   double high) {
  return Parse<double>(text, low, high, "a number");
}

}  // namespace interleave
