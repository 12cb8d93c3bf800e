#include "sim/config/config.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"

namespace interleave::sim {
namespace {

using ::google::protobuf::Descriptor;
using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::Reflection;

class LastError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    message_ = message;
  }
  const std::string& message() const { return message_; }

 private:
  std::string message_;
};

std::string FieldNames(const Descriptor& descriptor) {
  std::vector<std::string> names;
  for (int i = 0; i < descriptor.field_count(); ++i) {
    names.push_back(descriptor.field(i)->name());
  }
  std::sort(names.begin(), names.end());
  return absl::StrJoin(names, ", ");
}

std::string ValueNames(const FieldDescriptor& field) {
  std::vector<std::string> names;
  for (int i = 0; i < field.enum_type()->value_count(); ++i) {
    names.push_back(field.enum_type()->value(i)->name());
  }
  return absl::StrJoin(names, ", ");
}

absl::Status NoSuchField(absl::string_view path, absl::string_view name,
                         const Descriptor& descriptor) {
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", path, "\": there is no field \"", name, "\" in ", descriptor.name(),
      "; its fields are: ", FieldNames(descriptor)));
}

// "name: value" or "name { ... }".
std::string FieldText(const FieldDescriptor& field, absl::string_view value) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    const bool braces = absl::StartsWith(value, "{");
    return absl::StrCat(field.name(), braces ? " " : " { ", value,
                        braces ? "" : " }");
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    return absl::StrCat(field.name(), ": \"", absl::CEscape(value), "\"");
  }
  return absl::StrCat(field.name(), ": ", value);
}

absl::Status SetLeaf(absl::string_view path, absl::string_view value,
                     const FieldDescriptor& field, Message* message) {
  // Parsed apart, so that a value cannot smuggle in other fields.
  const std::unique_ptr<Message> parsed(message->New());
  google::protobuf::TextFormat::Parser parser;
  LastError error;
  parser.RecordErrorsTo(&error);
  if (parser.ParseFromString(FieldText(field, value), parsed.get())) {
    std::vector<const FieldDescriptor*> set;
    parsed->GetReflection()->ListFields(*parsed, &set);
    if (set.size() == 1) {
      if (!field.is_repeated()) {
        message->GetReflection()->ClearField(message, &field);
      }
      message->MergeFrom(*parsed);
      return absl::OkStatus();
    }
    error.AddError(0, 0, "it is more than one value");
  }
  std::string hint;
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    hint = absl::StrCat("; its values are: ", ValueNames(field));
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    hint =
        absl::StrCat("; its fields are: ", FieldNames(*field.message_type()));
  } else {
    hint = absl::StrCat("; it takes a ", field.cpp_type_name());
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", path, "\" cannot be \"", value, "\": ", error.message(), hint));
}

bool NamesFile(const FieldDescriptor& field, const std::string& value) {
  if (value.empty()) return false;
  if (field.name() == "path" || field.name() == "directory") return true;
  // As LookupModel and LookupDevice tell names from files.
  return (field.name() == "model" || field.name() == "device") &&
         (absl::StrContains(value, '/') || absl::EndsWith(value, ".textproto"));
}

}  // namespace

absl::Status SetField(absl::string_view path, absl::string_view value,
                      Message* message) {
  const std::vector<std::string> names = absl::StrSplit(path, '.');
  for (size_t i = 0; i < names.size(); ++i) {
    const Descriptor& descriptor = *message->GetDescriptor();
    const FieldDescriptor* const field = descriptor.FindFieldByName(names[i]);
    if (field == nullptr) return NoSuchField(path, names[i], descriptor);
    if (i + 1 == names.size()) return SetLeaf(path, value, *field, message);
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE ||
        field->is_repeated()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", path, "\": \"", names[i], "\" in ",
                       descriptor.name(), " has no fields of its own"));
    }
    message = message->GetReflection()->MutableMessage(message, field);
  }
  return absl::OkStatus();
}

absl::Status SetField(absl::string_view assignment, Message* message) {
  const size_t equals = assignment.find('=');
  if (equals == absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", assignment,
                     "\" sets nothing; write field.path=value, as in "
                     "limits.max_num_seqs=64"));
  }
  return SetField(assignment.substr(0, equals), assignment.substr(equals + 1),
                  message);
}

void SpellOutDefaults(Message* message) {
  const Descriptor& descriptor = *message->GetDescriptor();
  const Reflection& reflection = *message->GetReflection();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor* const field = descriptor.field(i);
    const bool chosen =
        field->is_repeated() || reflection.HasField(*message, field);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (field->is_repeated()) {
        for (int j = 0; j < reflection.FieldSize(*message, field); ++j) {
          SpellOutDefaults(
              reflection.MutableRepeatedMessage(message, field, j));
        }
      } else if (chosen) {
        SpellOutDefaults(reflection.MutableMessage(message, field));
      }
      continue;
    }
    if (chosen || !field->has_default_value() ||
        field->real_containing_oneof() != nullptr) {
      continue;
    }
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        reflection.SetInt32(message, field, field->default_value_int32());
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        reflection.SetInt64(message, field, field->default_value_int64());
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        reflection.SetUInt32(message, field, field->default_value_uint32());
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        reflection.SetUInt64(message, field, field->default_value_uint64());
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        reflection.SetDouble(message, field, field->default_value_double());
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        reflection.SetFloat(message, field, field->default_value_float());
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        reflection.SetBool(message, field, field->default_value_bool());
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        reflection.SetEnum(message, field, field->default_value_enum());
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        reflection.SetString(message, field, field->default_value_string());
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        break;
    }
  }
}

void MakePathsAbsolute(Message* message) {
  const Reflection& reflection = *message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(*message, &fields);
  for (const FieldDescriptor* const field : fields) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!field->is_repeated()) {
        MakePathsAbsolute(reflection.MutableMessage(message, field));
        continue;
      }
      for (int i = 0; i < reflection.FieldSize(*message, field); ++i) {
        MakePathsAbsolute(reflection.MutableRepeatedMessage(message, field, i));
      }
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING &&
               !field->is_repeated()) {
      const std::string value = reflection.GetString(*message, field);
      if (!NamesFile(*field, value)) continue;
      std::error_code error;
      const auto absolute = std::filesystem::absolute(value, error);
      if (!error) {
        reflection.SetString(message, field,
                             absolute.lexically_normal().string());
      }
    }
  }
}

std::string ConfigText(const Message& message) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseUtf8StringEscaping(true);
  std::string text;
  printer.PrintToString(message, &text);
  return text;
}

}  // namespace interleave::sim
