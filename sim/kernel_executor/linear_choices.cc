#include "sim/kernel_executor/linear_choices.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/csv.h"
#include "base/status_macros.h"

namespace interleave::sim {
namespace {

constexpr size_t kDigits = 16;  // of a word

// SimpleHexAtoi takes more than digits, a sign for one.
bool ParseAlgorithm(absl::string_view text, LinearAlgorithm& algorithm) {
  if (text.size() != kDigits * algorithm.size() ||
      text.find_first_not_of("0123456789abcdef") != absl::string_view::npos) {
    return false;
  }
  for (size_t i = 0; i < algorithm.size(); ++i) {
    if (!absl::SimpleHexAtoi(text.substr(i * kDigits, kDigits),
                             &algorithm[i])) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string FormatLinearChoices(const LinearChoices& choices) {
  std::string text = "cublas_lt_version,layer,tokens,algorithm\n";
  for (const auto& [layer, algorithms] : choices.layers) {
    for (const auto& [tokens, algorithm] : algorithms) {
      absl::StrAppendFormat(&text, "%d,%s,%d,", choices.cublas_lt_version,
                            layer, tokens);
      for (const uint64_t word : algorithm) {
        absl::StrAppendFormat(&text, "%016x", word);
      }
      text += '\n';
    }
  }
  return text;
}

absl::StatusOr<LinearChoices> ParseLinearChoices(absl::string_view text,
                                                 absl::string_view source) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  CsvReader csv(text, source);
  RETURN_IF_ERROR(csv.ReadHeader());
  ASSIGN_OR_RETURN(const int version, csv.Column("cublas_lt_version"));
  ASSIGN_OR_RETURN(const int layer, csv.Column("layer"));
  ASSIGN_OR_RETURN(const int tokens, csv.Column("tokens"));
  ASSIGN_OR_RETURN(const int algorithm, csv.Column("algorithm"));
  LinearChoices choices;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, csv.Next());
    if (!more) return choices;
    ASSIGN_OR_RETURN(const int64_t own, csv.Int(version, 1, kMost));
    if (choices.cublas_lt_version != 0 && own != choices.cublas_lt_version) {
      return csv.FieldError(version, "differs from that of the lines before");
    }
    choices.cublas_lt_version = own;
    ASSIGN_OR_RETURN(const int64_t most, csv.Int(tokens, 1, kMost));
    LinearAlgorithm words = {};
    if (!ParseAlgorithm(csv.Text(algorithm), words)) {
      return csv.FieldError(algorithm, "is not 128 digits of hex");
    }
    if (!choices.layers[std::string(csv.Text(layer))]
             .insert({most, words})
             .second) {
      return csv.Error("layer and tokens of a line before; remove one");
    }
  }
}

}  // namespace interleave::sim
