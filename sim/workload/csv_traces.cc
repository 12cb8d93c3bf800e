#include "sim/workload/csv_traces.h"

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/csv.h"
#include "base/sim_time.h"
#include "base/status_macros.h"
#include "scheduler/request_spec.h"
#include "sim/workload/token_limits.h"
#include "sim/workload/utc_timestamp.h"

namespace interleave::sim {
namespace {

using ::interleave::scheduler::RequestSpec;

constexpr int64_t kMaxArrivalNanos = kMaxArrivalSeconds * 1'000'000'000;
constexpr double kMaxSloMillis = 1e12;

// The two columns that each format has, under its own names.
struct LengthColumns {
  int prompt = 0;
  int output = 0;
};

absl::StatusOr<LengthColumns> FindLengths(const CsvReader& csv,
                                          absl::string_view prompt,
                                          absl::string_view output) {
  LengthColumns columns;
  ASSIGN_OR_RETURN(columns.prompt, csv.Column(prompt));
  ASSIGN_OR_RETURN(columns.output, csv.Column(output));
  return columns;
}

absl::StatusOr<int32_t> ReadTokens(const CsvReader& csv, int column) {
  ASSIGN_OR_RETURN(const int64_t tokens, csv.Int(column, 0, kMaxTokens));
  if (tokens == 0) {
    return csv.FieldError(column,
                          "is 0; a request has at least one token of prompt "
                          "and one of output: remove the line");
  }
  return static_cast<int32_t>(tokens);
}

absl::Status ReadLengths(const CsvReader& csv, const LengthColumns& columns,
                         RequestSpec& spec) {
  ASSIGN_OR_RETURN(spec.prompt_tokens, ReadTokens(csv, columns.prompt));
  ASSIGN_OR_RETURN(spec.output_tokens, ReadTokens(csv, columns.output));
  spec.max_output_tokens = spec.output_tokens;
  return absl::OkStatus();
}

// Reads all rows with `read_row(RequestSpec&)`.
template <typename ReadRow>
absl::StatusOr<std::vector<RequestSpec>> ReadRows(CsvReader& csv,
                                                  ReadRow read_row) {
  std::vector<RequestSpec> requests;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, csv.Next());
    if (!more) break;
    RETURN_IF_ERROR(read_row(requests.emplace_back()));
  }
  if (requests.empty()) {
    return csv.Error(
        "the file ends after its header; it needs at least one "
        "request");
  }
  return requests;
}

// The optional columns of the `requests` format; -1 where absent.
struct RequestColumns {
  LengthColumns lengths;
  int arrival = -1;
  int tenant = -1;
  int priority = -1;
  int ttft_slo = -1;
  int tbt_slo = -1;
  int prefix_id = -1;
  int prefix_tokens = -1;

  bool HasClasses() const {
    return tenant >= 0 || priority >= 0 || ttft_slo >= 0 || tbt_slo >= 0;
  }
};

absl::StatusOr<RequestColumns> FindRequestColumns(const CsvReader& csv) {
  RETURN_IF_ERROR(csv.RefuseOtherColumns(
      {"arrival_s", "prompt_tokens", "output_tokens", "tenant", "priority",
       "ttft_slo_ms", "tbt_slo_ms", "prefix_id", "prefix_tokens"}));
  RequestColumns columns;
  ASSIGN_OR_RETURN(columns.arrival, csv.Column("arrival_s"));
  ASSIGN_OR_RETURN(columns.lengths,
                   FindLengths(csv, "prompt_tokens", "output_tokens"));
  columns.tenant = csv.OptionalColumn("tenant");
  columns.priority = csv.OptionalColumn("priority");
  columns.ttft_slo = csv.OptionalColumn("ttft_slo_ms");
  columns.tbt_slo = csv.OptionalColumn("tbt_slo_ms");
  columns.prefix_id = csv.OptionalColumn("prefix_id");
  columns.prefix_tokens = csv.OptionalColumn("prefix_tokens");
  if ((columns.prefix_id < 0) != (columns.prefix_tokens < 0)) {
    return csv.Error(
        "prefix_id and prefix_tokens come together; add the missing column");
  }
  return columns;
}

absl::StatusOr<SimDuration> ReadSlo(const CsvReader& csv, int column) {
  if (column < 0 || csv.Text(column).empty()) return SimDuration::Max();
  ASSIGN_OR_RETURN(const double millis, csv.Double(column, 0, kMaxSloMillis));
  if (millis == 0) {
    return csv.FieldError(column, "is 0; leave the field empty for no target");
  }
  return SimDuration::Millis(millis);
}

absl::Status ReadClass(const CsvReader& csv, const RequestColumns& columns,
                       RequestSpec& spec) {
  constexpr int64_t kMin = std::numeric_limits<int32_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  if (columns.tenant >= 0) {
    ASSIGN_OR_RETURN(const int64_t tenant,
                     csv.Int(columns.tenant, 0, kMaxTenant));
    spec.tenant = static_cast<int32_t>(tenant);
  }
  if (columns.priority >= 0) {
    ASSIGN_OR_RETURN(const int64_t priority,
                     csv.Int(columns.priority, kMin, kMax));
    spec.priority = static_cast<int32_t>(priority);
  }
  ASSIGN_OR_RETURN(spec.slo.ttft, ReadSlo(csv, columns.ttft_slo));
  ASSIGN_OR_RETURN(spec.slo.tbt, ReadSlo(csv, columns.tbt_slo));
  return absl::OkStatus();
}

absl::Status ReadPrefix(const CsvReader& csv, const RequestColumns& columns,
                        RequestSpec& spec) {
  if (columns.prefix_id < 0) return absl::OkStatus();
  const bool no_id = csv.Text(columns.prefix_id).empty();
  if (no_id && csv.Text(columns.prefix_tokens).empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t tokens,
                   csv.Int(columns.prefix_tokens, 0, spec.prompt_tokens));
  if (tokens == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t id,
                   csv.Int(columns.prefix_id, 0, kMaxContentId));
  spec.segments.push_back(
      {.content_id = id, .num_tokens = static_cast<int32_t>(tokens)});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<RequestSpec>> ParseAzure2023(
    absl::string_view text, absl::string_view name) {
  CsvReader csv(text, name);
  RETURN_IF_ERROR(csv.ReadHeader());
  ASSIGN_OR_RETURN(const int timestamp, csv.Column("TIMESTAMP"));
  ASSIGN_OR_RETURN(const LengthColumns lengths,
                   FindLengths(csv, "ContextTokens", "GeneratedTokens"));
  return ReadRows(csv, [&](RequestSpec& spec) -> absl::Status {
    const absl::StatusOr<int64_t> nanos =
        ParseUtcTimestamp(csv.Text(timestamp));
    if (!nanos.ok()) {
      return csv.FieldError(timestamp, nanos.status().message());
    }
    spec.arrival = SimTime::FromNanos(*nanos);
    return ReadLengths(csv, lengths, spec);
  });
}

absl::StatusOr<std::vector<RequestSpec>> ParseLengths(absl::string_view text,
                                                      absl::string_view name) {
  CsvReader csv(text, name);
  RETURN_IF_ERROR(csv.ReadHeader());
  ASSIGN_OR_RETURN(const LengthColumns lengths,
                   FindLengths(csv, "num_prefill_tokens", "num_decode_tokens"));
  return ReadRows(
      csv, [&](RequestSpec& spec) { return ReadLengths(csv, lengths, spec); });
}

absl::StatusOr<std::vector<RequestSpec>> ParseReplay(absl::string_view text,
                                                     absl::string_view name) {
  CsvReader csv(text, name);
  RETURN_IF_ERROR(csv.ReadHeader());
  ASSIGN_OR_RETURN(const int arrival, csv.Column("arrival_time_ns"));
  ASSIGN_OR_RETURN(const LengthColumns lengths,
                   FindLengths(csv, "input_toks", "output_toks"));
  return ReadRows(csv, [&](RequestSpec& spec) -> absl::Status {
    ASSIGN_OR_RETURN(const int64_t nanos,
                     csv.Int(arrival, 0, kMaxArrivalNanos));
    spec.arrival = SimTime::FromNanos(nanos);
    return ReadLengths(csv, lengths, spec);
  });
}

absl::StatusOr<std::vector<RequestSpec>> ParseRequests(absl::string_view text,
                                                       absl::string_view name,
                                                       bool* has_classes) {
  CsvReader csv(text, name);
  RETURN_IF_ERROR(csv.ReadHeader());
  ASSIGN_OR_RETURN(const RequestColumns columns, FindRequestColumns(csv));
  *has_classes = columns.HasClasses();
  return ReadRows(csv, [&](RequestSpec& spec) -> absl::Status {
    ASSIGN_OR_RETURN(const double seconds,
                     csv.Double(columns.arrival, 0,
                                static_cast<double>(kMaxArrivalSeconds)));
    spec.arrival = SimTime::FromSeconds(seconds);
    RETURN_IF_ERROR(ReadLengths(csv, columns.lengths, spec));
    RETURN_IF_ERROR(ReadClass(csv, columns, spec));
    return ReadPrefix(csv, columns, spec);
  });
}

}  // namespace interleave::sim
