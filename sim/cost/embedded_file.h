// Text files compiled into the program by embed.bzl.

#ifndef SIM_COST_EMBEDDED_FILE_H_
#define SIM_COST_EMBEDDED_FILE_H_

#include "absl/types/span.h"

namespace interleave::sim::embedded {

struct EmbeddedFile {
  // Without folder and extension; of a profile's file with both.
  const char* name;
  const char* text;
};

absl::Span<const EmbeddedFile> ModelFiles();
absl::Span<const EmbeddedFile> DeviceFiles();
absl::Span<const EmbeddedFile> ProfileFiles();

}  // namespace interleave::sim::embedded

#endif  // SIM_COST_EMBEDDED_FILE_H_
