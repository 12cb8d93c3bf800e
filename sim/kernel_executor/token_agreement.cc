#include "sim/kernel_executor/token_agreement.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/csv.h"
#include "base/status_macros.h"

namespace interleave::sim {
namespace {

struct Step {
  int64_t token;
  double gap;
};
using Generated = std::map<int64_t, std::vector<Step>>;

absl::StatusOr<Generated> ReadTokens(absl::string_view text,
                                     absl::string_view name) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  CsvReader csv(text, name);
  RETURN_IF_ERROR(csv.ReadHeader());
  ASSIGN_OR_RETURN(const int request, csv.Column("request_id"));
  ASSIGN_OR_RETURN(const int index, csv.Column("index"));
  ASSIGN_OR_RETURN(const int token, csv.Column("token"));
  ASSIGN_OR_RETURN(const int gap, csv.Column("logit_gap"));
  Generated generated;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, csv.Next());
    if (!more) return generated;
    ASSIGN_OR_RETURN(const int64_t id, csv.Int(request, 0, kMost));
    std::vector<Step>& steps = generated[id];
    const int64_t next = static_cast<int64_t>(steps.size());
    RETURN_IF_ERROR(csv.Int(index, next, next).status());
    Step step;
    ASSIGN_OR_RETURN(step.token, csv.Int(token, 0, kMost));
    ASSIGN_OR_RETURN(step.gap, csv.Double(gap, 0, 1e30));
    steps.push_back(step);
  }
}

}  // namespace

absl::StatusOr<TokenAgreement> CompareTokens(absl::string_view a,
                                             absl::string_view a_name,
                                             absl::string_view b,
                                             absl::string_view b_name) {
  ASSIGN_OR_RETURN(const Generated first, ReadTokens(a, a_name));
  ASSIGN_OR_RETURN(const Generated second, ReadTokens(b, b_name));
  TokenAgreement agreement;
  double sum = 0;
  for (const auto& [id, steps] : first) {
    const auto other = second.find(id);
    if (other == second.end()) continue;
    ++agreement.requests;
    const size_t count = std::min(steps.size(), other->second.size());
    size_t same = 0;
    while (same < count && steps[same].token == other->second[same].token) {
      ++same;
    }
    agreement.tokens += static_cast<int64_t>(count);
    agreement.tokens_before_difference += static_cast<int64_t>(same);
    if (same == count) {
      ++agreement.same;
      continue;
    }
    const double gap = std::max(steps[same].gap, other->second[same].gap);
    sum += gap;
    agreement.largest_gap = std::max(agreement.largest_gap, gap);
  }
  if (agreement.requests == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(a_name, " and ", b_name, " have no request in common"));
  }
  if (agreement.same < agreement.requests) {
    agreement.mean_gap =
        sum / static_cast<double>(agreement.requests - agreement.same);
  }
  return agreement;
}

}  // namespace interleave::sim
