// Whole files, gzip-compressed or not.

#ifndef SIM_COST_GZIP_H_
#define SIM_COST_GZIP_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace interleave::sim {

// The text of `path`, decompressed where it is gzip.  NotFound where it cannot
// be read; InvalidArgument where the compressed data is damaged or cut off, or
// holds more than `max_bytes`.
absl::StatusOr<std::string> ReadMaybeGzip(const std::string& path,
                                          size_t max_bytes = size_t{1} << 30);

}  // namespace interleave::sim

#endif  // SIM_COST_GZIP_H_
