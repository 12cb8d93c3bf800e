// Configurations as text: read, changed field by field, written out whole.

#ifndef SIM_CONFIG_CONFIG_H_
#define SIM_CONFIG_CONFIG_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace interleave::sim {

// Sets one field, named by its path: SetField("cost.roofline.constant_us",
// "30", &config).  Strings and names of enumerated values come without quotes;
// a message's value is its text format in braces; a repeated field gets one
// element more.  InvalidArgument lists the fields (or values) there are.
absl::Status SetField(absl::string_view path, absl::string_view value,
                      google::protobuf::Message* message);

// The same from "path=value".
absl::Status SetField(absl::string_view assignment,
                      google::protobuf::Message* message);

// Gives every unset field that declares a default its default, in the messages
// that are set too, so that the text says all there is to know.  Messages that
// are not set stay so: whether they are may mean something.
void SpellOutDefaults(google::protobuf::Message* message);

// Makes the file names that a configuration holds independent of the folder it
// is read in: fields called "path" or "directory", and models and devices that
// are given as files.
void MakePathsAbsolute(google::protobuf::Message* message);

// Text format, in order of field numbers; parses back to an equal message.
std::string ConfigText(const google::protobuf::Message& message);

}  // namespace interleave::sim

#endif  // SIM_CONFIG_CONFIG_H_
