#include "sim/cost/text_proto.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"

namespace interleave::sim {
namespace {

class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (line_ >= 0) return;
    line_ = line + 1;
    message_ = message;
  }
  int line() const { return line_ < 0 ? 1 : line_; }
  const std::string& message() const { return message_; }

 private:
  int line_ = -1;
  std::string message_;
};

std::string FieldNames(const google::protobuf::Descriptor& descriptor) {
  std::vector<std::string> names;
  for (int i = 0; i < descriptor.field_count(); ++i) {
    names.push_back(descriptor.field(i)->name());
  }
  return absl::StrJoin(names, ", ");
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) {
    return absl::NotFoundError(
        absl::StrCat(path, ": cannot be opened: ", std::strerror(errno)));
  }
  std::string text;
  char buffer[1 << 16];
  size_t n;
  while ((n = std::fread(buffer, 1, sizeof(buffer), file.get())) > 0) {
    text.append(buffer, n);
  }
  if (std::ferror(file.get()) != 0) {
    return absl::NotFoundError(
        absl::StrCat(path, ": cannot be read: ", std::strerror(errno)));
  }
  return text;
}

absl::Status ParseTextProto(absl::string_view text, absl::string_view source,
                            google::protobuf::Message* message) {
  // A byte order mark is no token of the format.
  if (absl::StartsWith(text, "\xEF\xBB\xBF")) text.remove_prefix(3);
  google::protobuf::TextFormat::Parser parser;
  FirstError error;
  parser.RecordErrorsTo(&error);
  if (parser.ParseFromString(std::string(text), message)) {
    return absl::OkStatus();
  }
  std::string what =
      absl::StrCat(source, ":", error.line(), ": ", error.message());
  if (absl::StrContains(error.message(), "no field named")) {
    absl::StrAppend(&what, "; fields of ", message->GetDescriptor()->name(),
                    " are: ", FieldNames(*message->GetDescriptor()));
  }
  return absl::InvalidArgumentError(what);
}

}  // namespace interleave::sim
