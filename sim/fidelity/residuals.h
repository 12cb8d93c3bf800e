// Residuals: what each iteration of a run was predicted to take, held against
// what it took.

#ifndef SIM_FIDELITY_RESIDUALS_H_
#define SIM_FIDELITY_RESIDUALS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "sim/cost/profile_tables.h"

namespace interleave::sim {

// A line of an iterations.csv of `--executor=both`.
struct IterationResidual {
  int64_t iteration = 0;
  double measured_ms = 0;
  double predicted_ms = 0;
  int64_t prefill_chunks = 0;
  int64_t prefill_tokens = 0;
  // Cached tokens of all chunks together.
  int64_t prefill_context_tokens = 0;
  int64_t decodes = 0;
  int64_t decode_kv_tokens = 0;

  int64_t tokens() const { return prefill_tokens + decodes; }
  // (predicted - measured) / measured.
  double error() const { return predicted_ms / measured_ms - 1; }
};

// InvalidArgument names `name`, the line and what is wrong, also where a line
// has no prediction.
absl::StatusOr<std::vector<IterationResidual>> ReadResiduals(
    absl::string_view text, absl::string_view name);

// Iterations of one class or size.
struct ResidualGroup {
  std::string label;
  int64_t count = 0;
  double measured_ms = 0;
  // Mean and 95th percentile (numpy's rank) of |error|; mean of error; the
  // error of all their time together.
  double mean_error = 0;
  double p95_error = 0;
  double bias = 0;
  double total_error = 0;
  // How many lie outside the profile's grid.
  int64_t outside = 0;
};

// All of them; by class (prefill only, decode only, mixed); by size: decodes
// alone by their number, the others by their tokens.  Empty groups are left
// out.  `profile` may be nullptr: nothing is outside then.
std::vector<ResidualGroup> GroupResiduals(
    absl::Span<const IterationResidual> residuals,
    const ProfileTables* profile);

// Whether the tables hold the iteration's sizes.  A line has sums, so that the
// means of contexts and lengths are looked at.
bool OutsideGrid(const ProfileTables& profile, const IterationResidual& r);

// A table for a person.
std::string ToTable(absl::Span<const ResidualGroup> groups);

}  // namespace interleave::sim

#endif  // SIM_FIDELITY_RESIDUALS_H_
