#include "base/line_reader.h"

#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace interleave {
namespace {

constexpr size_t kLongestQuote = 40;

}  // namespace

LineReader::LineReader(absl::string_view text, absl::string_view name)
    : rest_(absl::StripTrailingAsciiWhitespace(text)), name_(name) {
  absl::ConsumePrefix(&rest_, "\xef\xbb\xbf");
}

bool LineReader::Next() {
  if (rest_.empty()) return false;
  const void* end = std::memchr(rest_.data(), '\n', rest_.size());
  if (end == nullptr) {
    line_ = rest_;
    rest_ = absl::string_view();
  } else {
    line_ = rest_.substr(0, static_cast<const char*>(end) - rest_.data());
    rest_.remove_prefix(line_.size() + 1);
  }
  absl::ConsumeSuffix(&line_, "\r");
  ++number_;
  return true;
}

absl::Status LineReader::Error(absl::string_view what) const {
  return absl::InvalidArgumentError(
      absl::StrCat(name_, ":", number_, ": ", what));
}

std::string QuoteForMessage(absl::string_view text) {
  if (text.size() <= kLongestQuote) {
    return absl::StrCat("\"", absl::CHexEscape(text), "\"");
  }
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kLongestQuote)),
                      "...\"");
}

}  // namespace interleave
