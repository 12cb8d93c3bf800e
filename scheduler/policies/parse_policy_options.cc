#include "scheduler/policies/parse_policy_options.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"

namespace interleave::scheduler {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;

// Keeps the first error: the others mostly follow from it.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (!message_.empty()) return;
    message_ =
        absl::StrCat("line ", line + 1, ", column ", column + 1, ": ", message);
  }
  const std::string& message() const { return message_; }

 private:
  std::string message_;
};

std::string TypeOf(const FieldDescriptor& field) {
  if (field.enum_type() == nullptr) return field.type_name();
  std::string names;
  for (int i = 0; i < field.enum_type()->value_count(); ++i) {
    absl::StrAppend(&names, i > 0 ? "|" : "",
                    field.enum_type()->value(i)->name());
  }
  return names;
}

std::string KnownFields(const Descriptor& type) {
  if (type.field_count() == 0) return "it has none";
  std::string list = "known are: ";
  for (int i = 0; i < type.field_count(); ++i) {
    absl::StrAppend(&list, i > 0 ? ", " : "", type.field(i)->name(), " (",
                    TypeOf(*type.field(i)), ")");
  }
  return list;
}

}  // namespace

absl::Status ParsePolicyOptionsInto(absl::string_view text,
                                    google::protobuf::Message& options) {
  FirstError error;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (parser.ParseFromString(std::string(text), &options)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("policy options \"", text, "\": ", error.message(), "; ",
                   KnownFields(*options.GetDescriptor())));
}

absl::Status RequireNoOptions(absl::string_view text) {
  if (absl::StripAsciiWhitespace(text).empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "policy options \"", text, "\": this policy has no options"));
}

absl::Status RequireAtLeast(absl::string_view field, int64_t value,
                            int64_t least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "policy option ", field, " is ", value, "; it must be at least ", least));
}

absl::Status RequireFraction(absl::string_view field, double value) {
  if (value >= 0 && value < 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("policy option ", field, " is ", value,
                   "; it must be at least 0 and less than 1"));
}

}  // namespace interleave::scheduler
