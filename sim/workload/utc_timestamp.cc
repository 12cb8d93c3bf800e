#include "sim/workload/utc_timestamp.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/line_reader.h"

namespace interleave::sim {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;
constexpr absl::string_view kPattern = "dddd-dd-dd dd:dd:dd";

bool MatchesPattern(absl::string_view text) {
  if (text.size() < kPattern.size()) return false;
  for (size_t i = 0; i < kPattern.size(); ++i) {
    const bool matches = kPattern[i] == 'd'   ? absl::ascii_isdigit(text[i])
                         : kPattern[i] == ' ' ? text[i] == ' ' || text[i] == 'T'
                                              : text[i] == kPattern[i];
    if (!matches) return false;
  }
  return true;
}

int Digits(absl::string_view text, int begin, int count) {
  int value = 0;
  for (int i = begin; i < begin + count; ++i) {
    value = value * 10 + (text[i] - '0');
  }
  return value;
}

bool IsLeapYear(int year) {
  return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

int DaysInMonth(int year, int month) {
  constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return kDays[month - 1] + (month == 2 && IsLeapYear(year) ? 1 : 0);
}

// Days from the start of 1970 to the start of `year`, which is not before it.
int64_t DaysBeforeYear(int year) {
  const int64_t y = year - 1;
  const int64_t leap_days = y / 4 - y / 100 + y / 400;
  constexpr int64_t kLeapDaysBefore1970 = 1969 / 4 - 1969 / 100 + 1969 / 400;
  return 365 * int64_t{year - 1970} + leap_days - kLeapDaysBefore1970;
}

// ".9799600", possibly with a zone behind: nanoseconds, or -1.
int64_t FractionNanos(absl::string_view text) {
  if (!absl::ConsumeSuffix(&text, "+00:00")) absl::ConsumeSuffix(&text, "Z");
  if (text.empty()) return 0;
  if (text[0] != '.' || text.size() < 2 || text.size() > 10) return -1;
  int64_t value = 0;
  int64_t unit = kNanosPerSecond;
  for (const char c : text.substr(1)) {
    if (!absl::ascii_isdigit(c)) return -1;
    unit /= 10;
    value += (c - '0') * unit;
  }
  return value;
}

}  // namespace

absl::StatusOr<int64_t> ParseUtcTimestamp(absl::string_view text) {
  const int64_t fraction =
      MatchesPattern(text) ? FractionNanos(text.substr(kPattern.size())) : -1;
  if (fraction < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(QuoteForMessage(text),
                     " is not a time like 2023-11-16 18:15:46.6805900"));
  }
  const int year = Digits(text, 0, 4);
  const int month = Digits(text, 5, 2);
  const int day = Digits(text, 8, 2);
  const int hour = Digits(text, 11, 2);
  const int minute = Digits(text, 14, 2);
  const int second = Digits(text, 17, 2);
  if (year < 1970 || year > 2200 || month < 1 || month > 12 || day < 1 ||
      day > DaysInMonth(year, month) || hour > 23 || minute > 59 ||
      second > 59) {
    return absl::InvalidArgumentError(
        absl::StrCat(QuoteForMessage(text),
                     " is no date and time of the years 1970 to 2200"));
  }
  int64_t days = DaysBeforeYear(year) + day - 1;
  for (int m = 1; m < month; ++m) days += DaysInMonth(year, m);
  const int64_t seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
  return seconds * kNanosPerSecond + fraction;
}

}  // namespace interleave::sim
