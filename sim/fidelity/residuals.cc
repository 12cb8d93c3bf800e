#include "sim/fidelity/residuals.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/csv.h"
#include "base/statistics.h"
#include "base/status_macros.h"
#include "sim/cost/grid.h"

namespace interleave::sim {
namespace {

constexpr int64_t kMost = int64_t{1} << 50;
constexpr int64_t kDecodeSizes[] = {8, 32, 64, 128, 256};
constexpr int64_t kTokenSizes[] = {128, 512, 1024, 2048};

struct Column {
  const char* name;
  int64_t IterationResidual::*field;
};

constexpr Column kColumns[] = {
    {"iteration", &IterationResidual::iteration},
    {"prefill_chunks", &IterationResidual::prefill_chunks},
    {"prefill_tokens", &IterationResidual::prefill_tokens},
    {"prefill_context_tokens", &IterationResidual::prefill_context_tokens},
    {"decodes", &IterationResidual::decodes},
    {"decode_kv_tokens", &IterationResidual::decode_kv_tokens},
};

enum class Kind { kPrefillOnly, kDecodeOnly, kMixed };

Kind KindOf(const IterationResidual& r) {
  if (r.prefill_tokens == 0) return Kind::kDecodeOnly;
  return r.decodes == 0 ? Kind::kPrefillOnly : Kind::kMixed;
}

template <typename Predicate>
void AddGroup(std::string label, absl::Span<const IterationResidual> residuals,
              const ProfileTables* profile, Predicate belongs,
              std::vector<ResidualGroup>& groups) {
  ResidualGroup group;
  group.label = std::move(label);
  std::vector<double> errors;
  double predicted_ms = 0;
  for (const IterationResidual& r : residuals) {
    if (!belongs(r)) continue;
    errors.push_back(std::abs(r.error()));
    group.mean_error += errors.back();
    group.bias += r.error();
    group.measured_ms += r.measured_ms;
    predicted_ms += r.predicted_ms;
    if (profile != nullptr && OutsideGrid(*profile, r)) ++group.outside;
  }
  if (errors.empty()) return;
  group.count = static_cast<int64_t>(errors.size());
  group.mean_error /= static_cast<double>(errors.size());
  group.bias /= static_cast<double>(errors.size());
  group.total_error = predicted_ms / group.measured_ms - 1;
  group.p95_error = Quantile(std::move(errors), 0.95);
  groups.push_back(std::move(group));
}

// "9 to 32", ..., and what is larger.
template <typename Size>
void AddSizes(absl::string_view what, absl::Span<const int64_t> sizes,
              absl::Span<const IterationResidual> residuals,
              const ProfileTables* profile, Size size,
              std::vector<ResidualGroup>& groups) {
  int64_t low = 0;
  for (size_t i = 0; i <= sizes.size(); ++i) {
    const int64_t high = i < sizes.size() ? sizes[i] : kMost;
    const std::string label =
        i < sizes.size() ? absl::StrCat(low + 1, " to ", high, " ", what)
                         : absl::StrCat("over ", low, " ", what);
    AddGroup(
        label, residuals, profile,
        [&](const IterationResidual& r) {
          const int64_t n = size(r);
          return low < n && n <= high;
        },
        groups);
    low = high;
  }
}

double Mean(int64_t sum, int64_t count) {
  return count == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(count);
}

bool Within(const Grid& grid, absl::Span<const double> at) {
  bool outside = false;
  grid.At(at, &outside);
  return !outside;
}

}  // namespace

absl::StatusOr<std::vector<IterationResidual>> ReadResiduals(
    absl::string_view text, absl::string_view name) {
  CsvReader csv(text, name);
  RETURN_IF_ERROR(csv.ReadHeader());
  ASSIGN_OR_RETURN(const int measured, csv.Column("device_ms"));
  ASSIGN_OR_RETURN(const int predicted, csv.Column("predicted_ms"));
  std::vector<int> columns;
  for (const Column& column : kColumns) {
    ASSIGN_OR_RETURN(const int index, csv.Column(column.name));
    columns.push_back(index);
  }
  std::vector<IterationResidual> residuals;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, csv.Next());
    if (!more) break;
    IterationResidual r;
    ASSIGN_OR_RETURN(r.measured_ms, csv.Double(measured, 0, 1e12));
    ASSIGN_OR_RETURN(r.predicted_ms, csv.Double(predicted, 0, 1e12));
    if (r.measured_ms == 0 || r.predicted_ms == 0) {
      return csv.Error(
          "an iteration without a measured and a predicted time; run with "
          "--executor=both");
    }
    for (size_t i = 0; i < columns.size(); ++i) {
      ASSIGN_OR_RETURN(r.*kColumns[i].field, csv.Int(columns[i], 0, kMost));
    }
    if (r.tokens() == 0) return csv.Error("an iteration of no tokens");
    residuals.push_back(r);
  }
  if (residuals.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": there is no iteration in it"));
  }
  return residuals;
}

bool OutsideGrid(const ProfileTables& profile, const IterationResidual& r) {
  const double chunk = static_cast<double>(r.prefill_tokens);
  const double context = Mean(r.prefill_context_tokens, r.prefill_chunks);
  const double decodes = static_cast<double>(r.decodes);
  const double cached = Mean(r.decode_kv_tokens, r.decodes);
  switch (KindOf(r)) {
    case Kind::kPrefillOnly:
      return !Within(profile.attention.prefill, {chunk, context});
    case Kind::kDecodeOnly:
      return !Within(profile.attention.decode, {decodes, cached});
    case Kind::kMixed:
      break;
  }
  if (profile.attention.mixed.empty()) return true;
  return !Within(profile.attention.mixed, {chunk, context, decodes, cached});
}

std::vector<ResidualGroup> GroupResiduals(
    absl::Span<const IterationResidual> residuals,
    const ProfileTables* profile) {
  std::vector<ResidualGroup> groups;
  AddGroup(
      "all", residuals, profile, [](const IterationResidual&) { return true; },
      groups);
  for (const auto& [label, kind] :
       {std::pair("prefill only", Kind::kPrefillOnly),
        {"decode only", Kind::kDecodeOnly},
        {"mixed", Kind::kMixed}}) {
    AddGroup(
        label, residuals, profile,
        [kind = kind](const IterationResidual& r) { return KindOf(r) == kind; },
        groups);
  }
  AddSizes(
      "decodes alone", kDecodeSizes, residuals, profile,
      [](const IterationResidual& r) {
        return KindOf(r) == Kind::kDecodeOnly ? r.decodes : 0;
      },
      groups);
  AddSizes(
      "tokens with prefill", kTokenSizes, residuals, profile,
      [](const IterationResidual& r) {
        return KindOf(r) == Kind::kDecodeOnly ? 0 : r.tokens();
      },
      groups);
  return groups;
}

std::string ToTable(absl::Span<const ResidualGroup> groups) {
  std::string table = absl::StrFormat(
      "%-32s %10s %12s %8s %8s %8s %8s %8s\n", "iterations", "count",
      "measured ms", "mean", "P95", "bias", "of sum", "outside");
  for (const ResidualGroup& g : groups) {
    absl::StrAppendFormat(
        &table, "%-32s %10d %12.1f %7.2f%% %7.2f%% %+7.2f%% %+7.2f%% %8d\n",
        g.label, g.count, g.measured_ms, 100 * g.mean_error, 100 * g.p95_error,
        100 * g.bias, 100 * g.total_error, g.outside);
  }
  return table;
}

}  // namespace interleave::sim
