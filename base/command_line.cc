#include "base/command_line.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "base/status_macros.h"

namespace interleave {
namespace {

constexpr size_t kHelpWidth = 80;
constexpr size_t kHelpIndent = 6;

const Flag* Find(absl::Span<const Flag> flags, absl::string_view name) {
  for (const Flag& flag : flags) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

absl::Status NoSuchFlag(absl::Span<const Flag> flags, absl::string_view name) {
  std::vector<std::string> names;
  for (const Flag& flag : flags) names.push_back(flag.name);
  const std::string closest = ClosestName(name, names);
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no flag --", name,
      closest.empty() ? "" : absl::StrCat("; did you mean --", closest, "?"),
      closest.empty() ? "; " : " ", "--help lists all"));
}

// Insertions, deletions and replacements that turn one into the other.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

Flag StringFlag(absl::string_view name, absl::string_view value,
                absl::string_view help, std::string* target) {
  return {std::string(name), std::string(value), std::string(help),
          [target](absl::string_view text) {
            *target = std::string(text);
            return absl::OkStatus();
          }};
}

Flag SwitchFlag(absl::string_view name, absl::string_view help, bool* target) {
  return {std::string(name), "", std::string(help),
          [target](absl::string_view text) {
            if (absl::SimpleAtob(text, target)) return absl::OkStatus();
            return absl::InvalidArgumentError("it takes true or false");
          }};
}

absl::Status ParseFlags(absl::Span<const Flag> flags,
                        absl::Span<const std::string> args) {
  for (size_t i = 0; i < args.size(); ++i) {
    absl::string_view arg = args[i];
    if (!absl::ConsumePrefix(&arg, "--") || arg.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", args[i], "\" is no flag; flags look like --name=value"));
    }
    const size_t equals = arg.find('=');
    const absl::string_view name = arg.substr(0, equals);
    const bool has_value = equals != absl::string_view::npos;
    std::string value(has_value ? arg.substr(equals + 1) : "");
    const Flag* flag = Find(flags, name);
    if (flag == nullptr && !has_value) {
      absl::string_view positive = name;
      if (absl::ConsumePrefix(&positive, "no")) flag = Find(flags, positive);
      if (flag != nullptr && !flag->value.empty()) flag = nullptr;
      value = "false";
    } else if (flag != nullptr && !has_value) {
      if (flag->value.empty()) {
        value = "true";
      } else if (i + 1 < args.size()) {
        value = args[++i];
      } else {
        return absl::InvalidArgumentError(absl::StrCat(
            "--", name, " wants a value: --", name, "=", flag->value));
      }
    }
    if (flag == nullptr) return NoSuchFlag(flags, name);
    if (absl::Status status = flag->set(value); !status.ok()) {
      return absl::Status(
          status.code(),
          absl::StrCat("--", flag->name, "=", value, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

int ExitStatus(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
      return 2;
    case absl::StatusCode::kCancelled:
      return 130;
    default:
      return 1;
  }
}

std::string FlagHelp(absl::Span<const Flag> flags) {
  std::string help;
  for (const Flag& flag : flags) {
    absl::StrAppend(&help, "  --", flag.name, flag.value.empty() ? "" : "=",
                    flag.value, "\n");
    std::string line(kHelpIndent, ' ');
    for (const absl::string_view word : absl::StrSplit(flag.help, ' ')) {
      if (line.size() + 1 + word.size() > kHelpWidth) {
        absl::StrAppend(&help, line, "\n");
        line.assign(kHelpIndent, ' ');
      }
      absl::StrAppend(&line, line.size() == kHelpIndent ? "" : " ", word);
    }
    absl::StrAppend(&help, line, "\n");
  }
  return help;
}

std::string ClosestName(absl::string_view name,
                        absl::Span<const std::string> names) {
  std::string closest;
  // Half of the letters may be wrong.
  size_t least = name.size() / 2 + 1;
  for (const std::string& candidate : names) {
    const size_t distance = EditDistance(name, candidate);
    if (distance < least) {
      least = distance;
      closest = candidate;
    }
  }
  return closest;
}

}  // namespace interleave
