// Reading request traces: five formats, told apart by their first line.
//
//   azure2023  CSV TIMESTAMP,ContextTokens,GeneratedTokens: the Azure LLM
//              inference traces of 2023 (and 2024's, which append a zone).
//   mooncake   JSON lines {"timestamp" (ms), "input_length", "output_length",
//              "hash_ids"}: the Mooncake traces.  One id names 512 tokens.
//   lengths    CSV num_prefill_tokens,num_decode_tokens, further columns
//              ignored.  No arrivals.
//   replay     CSV input_toks,output_toks,arrival_time_ns.
//   requests   CSV of this project: arrival_s,prompt_tokens,output_tokens and,
//              optionally, tenant, priority, ttft_slo_ms, tbt_slo_ms (empty: no
//              target), and prefix_id with prefix_tokens (both empty or
//              prefix_tokens 0: no shared prefix).
//
// Columns may come in any order.  LF or CRLF, a byte order mark, and a last
// line without an end are accepted.

#ifndef SIM_WORKLOAD_TRACE_READER_H_
#define SIM_WORKLOAD_TRACE_READER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "scheduler/request_spec.h"

namespace interleave::sim {

enum class TraceFormat { kAzure2023, kMooncake, kLengths, kReplay, kRequests };

// "azure2023", "mooncake", ...
absl::string_view TraceFormatName(TraceFormat format);

// The format of that name; the error lists the known ones.
absl::StatusOr<TraceFormat> TraceFormatFromName(absl::string_view name);

// The format that the text's first line belongs to.
absl::StatusOr<TraceFormat> GuessTraceFormat(absl::string_view text,
                                             absl::string_view name);

struct TraceReadResult {
  TraceFormat format = TraceFormat::kRequests;
  // In order of arrival (rows of equal arrival in the file's order), ids from
  // 0.  At least one.  `max_output_tokens` equals `output_tokens`.
  //
  // Arrivals count from the first one in azure2023, and are the file's own
  // elsewhere; all zero when the format has none.
  std::vector<scheduler::RequestSpec> requests;
  bool has_arrivals = true;
  // The file says something about tenants, priorities or SLOs.
  bool has_classes = false;
  // What a user should know about how the file was read, one line each.
  std::vector<std::string> notices;
};

// Parses the text of a trace; `name` stands in messages.  Errors are
// InvalidArgument "name:line: what is wrong; remedy".
absl::StatusOr<TraceReadResult> ParseTrace(absl::string_view text,
                                           absl::string_view name,
                                           TraceFormat format);

// Reads the file at `path`; guesses the format when `format_name` is empty.
absl::StatusOr<TraceReadResult> ReadTrace(const std::string& path,
                                          absl::string_view format_name);

}  // namespace interleave::sim

#endif  // SIM_WORKLOAD_TRACE_READER_H_
