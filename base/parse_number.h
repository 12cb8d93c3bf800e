// Strict numbers: the whole text must be one, with no sign "+", space or
// locale.

#ifndef BASE_PARSE_NUMBER_H_
#define BASE_PARSE_NUMBER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace interleave {

// A whole number in [low, high].  InvalidArgument says what is wrong with the
// text, quoted, to follow the name of what was parsed: `"x" is not a whole
// number`.
absl::StatusOr<int64_t> ParseInt(absl::string_view text, int64_t low,
                                 int64_t high);

// A finite decimal number in [low, high], exponent allowed.
absl::StatusOr<double> ParseDouble(absl::string_view text, double low,
                                   double high);

}  // namespace interleave

#endif  // BASE_PARSE_NUMBER_H_
