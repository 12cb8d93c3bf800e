// Text-format protos with errors a person can act on.

#ifndef SIM_COST_TEXT_PROTO_H_
#define SIM_COST_TEXT_PROTO_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace interleave::sim {

// The whole file; NotFound with the path where it cannot be read.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Parses `text` into `message`.  InvalidArgument "source:line: what", or
// "...; fields are: ..." for a field that `message` does not have.
absl::Status ParseTextProto(absl::string_view text, absl::string_view source,
                            google::protobuf::Message* message);

}  // namespace interleave::sim

#endif  // SIM_COST_TEXT_PROTO_H_
