#include "sim/profiling/profile_files.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace interleave::sim {
namespace {

std::string Line(absl::string_view name, double size, double us) {
  return absl::StrFormat("%s,%.0f,%.3f\n", name, size, us);
}

std::string DenseCsv(const ProfileData& data,
                     absl::Span<const int32_t> graph_sizes) {
  std::string text = "layer,tokens,time_us\n";
  for (const auto& [sequences, us] : data.decode_iteration) {
    const auto size = static_cast<int32_t>(sequences);
    const auto found =
        std::lower_bound(graph_sizes.begin(), graph_sizes.end(), size);
    if (found != graph_sizes.end() && *found == size) {
      // From the first batch that is padded to this size.
      const int32_t first = found == graph_sizes.begin() ? 1 : found[-1] + 1;
      if (first < size)
        absl::StrAppend(&text, Line("decode_iteration", first, us));
    }
    absl::StrAppend(&text, Line("decode_iteration", sequences, us));
  }
  for (const auto& [tokens, us] : data.iteration) {
    absl::StrAppend(&text, Line("iteration", tokens, us));
  }
  return text;
}

std::string PerSequenceCsv(const ProfileData& data) {
  std::string text = "layer,sequences,time_us\n";
  for (const auto& [sequences, us] : data.lm_head) {
    absl::StrAppend(&text, Line("lm_head", sequences, us));
  }
  return text;
}

std::string AttentionCsv(const ProfileData& data) {
  std::string text = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n";
  for (const auto& [at, us] : data.decode.values) {
    absl::StrAppendFormat(&text, "0,0,%.0f,%.0f,%.4f\n", at[0], at[1], us);
  }
  for (const auto& [at, us] : data.prefill.values) {
    absl::StrAppendFormat(&text, "%.0f,%.0f,0,0,%.4f\n", at[0], at[1], us);
  }
  for (const auto& [at, us] : data.mixed.values) {
    absl::StrAppendFormat(&text, "%.0f,%.0f,%.0f,%.0f,%.4f\n", at[0], at[1],
                          at[2], at[3], us);
  }
  return text;
}

std::string LevelLines(absl::string_view batches, const Level& level) {
  std::string text;
  for (const Level::Step& step : level.steps()) {
    absl::StrAppendFormat(&text, "%s,%d,%.5f\n", batches, step.last,
                          step.factor);
  }
  return text;
}

std::string SkewCsv(const ProfileData& data) {
  std::string text = "n,kv_mean,kv_big,variation,t_us,deviation\n";
  for (const SkewSample& s : data.skew) {
    absl::StrAppendFormat(&text, "%.0f,%.1f,%.0f,%.4f,%.4f,%.4f\n", s.sequences,
                          s.mean, s.longest, s.variation, s.time_us,
                          s.deviation);
  }
  return text;
}

}  // namespace

std::map<std::string, std::string> ProfileFiles(
    const ProfileData& data, absl::Span<const int32_t> graph_sizes,
    const ProfileMeta& meta) {
  std::map<std::string, std::string> files;
  files["dense.csv"] = DenseCsv(data, graph_sizes);
  files["per_sequence.csv"] = PerSequenceCsv(data);
  files["attention.csv"] = AttentionCsv(data);
  files["skew.csv"] = SkewCsv(data);
  files["layers.csv"] =
      "layer,per_layer,per_iteration,batches\n"
      "decode_iteration,0,1,decodes_alone\n"
      "iteration,0,1,with_prefill\n"
      "lm_head,0,1,with_prefill\n";
  files["host_overhead.csv"] =
      absl::StrFormat("constant_us,per_sequence_us\n%.2f,%.4f\n",
                      data.host_constant_us, data.host_per_sequence_us);
  if (const ThrottleTable& t = data.throttle; t.time_constant_us > 0) {
    files["throttle.csv"] = absl::StrFormat(
        "time_constant_us,compute_slowdown,memory_slowdown,memory_tokens,"
        "compute_tokens,memory_state\n%.0f,%.4f,%.4f,%.0f,%.0f,%.2f\n",
        t.time_constant_us, t.compute_slowdown, t.memory_slowdown,
        t.memory_tokens, t.compute_tokens, t.memory_state);
  }
  const std::string levels =
      LevelLines("with_prefill", data.levels.with_prefill) +
      LevelLines("decodes_alone", data.levels.decodes_alone);
  if (!levels.empty()) {
    files["levels.csv"] = "batches,up_to,factor\n" + levels;
  }
  std::string& text = files["meta.yaml"];
  for (const auto& [key, value] : meta) {
    absl::StrAppend(&text, key, ": ", value, "\n");
  }
  return files;
}

std::string CheckCsv(absl::Span<const CheckRow> rows) {
  std::string text =
      "batch,measured_us,predicted_us,error_percent,outside_grid\n";
  for (const CheckRow& row : rows) {
    absl::StrAppendFormat(&text, "%s,%.1f,%.1f,%.2f,%d\n", row.batch,
                          row.measured_us, row.predicted_us,
                          100 * (row.predicted_us / row.measured_us - 1),
                          row.outside_grid ? 1 : 0);
  }
  return text;
}

}  // namespace interleave::sim
