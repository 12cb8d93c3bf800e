#include "sim/output/summary.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/sim_time.h"
#include "sim/metrics/distribution.h"
#include "sim/metrics/metrics.h"
#include "sim/output/csv.h"
#include "sim/run_result.h"

namespace interleave::sim {
namespace {

using Json = ::nlohmann::ordered_json;

constexpr double kNanosPerMilli = 1e6;

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

Json Millis(const Distribution& distribution) {
  Json json;
  json["mean"] = distribution.mean_nanos() / kNanosPerMilli;
  json["p50"] = distribution.QuantileNanos(0.50) / kNanosPerMilli;
  json["p90"] = distribution.QuantileNanos(0.90) / kNanosPerMilli;
  json["p95"] = distribution.QuantileNanos(0.95) / kNanosPerMilli;
  json["p99"] = distribution.QuantileNanos(0.99) / kNanosPerMilli;
  json["max"] = distribution.max().millis();
  return json;
}

Json Identity(const SimulationConfig& config) {
  Json json;
  json["policy"] = config.policy().name();
  json["policy_options"] = config.policy().options();
  json["model"] = config.cost().model();
  json["device"] = config.cost().device();
  json["seed"] = config.seed();
  return json;
}

Json Requests(const RunResult& result) {
  Json json;
  json["completed"] = result.metrics.completed();
  json["rejected"] = result.metrics.rejected();
  json["rejections"] = Json::object();
  for (const auto& [reason, count] : result.metrics.rejections()) {
    json["rejections"][reason] = count;
  }
  return json;
}

Json Throughput(const Metrics& metrics) {
  const double seconds = metrics.makespan().seconds();
  const double output = static_cast<double>(metrics.output_tokens());
  const double prompt = static_cast<double>(metrics.prompt_tokens());
  Json json;
  json["requests_per_s"] =
      Ratio(static_cast<double>(metrics.completed()), seconds);
  json["output_tokens_per_s"] = Ratio(output, seconds);
  json["total_tokens_per_s"] = Ratio(prompt + output, seconds);
  return json;
}

Json SloAttainment(const Metrics& metrics) {
  const double all =
      static_cast<double>(metrics.completed() + metrics.rejected());
  Json json;
  json["both"] = Ratio(static_cast<double>(metrics.attained_slo()), all);
  json["ttft"] = Ratio(static_cast<double>(metrics.attained_ttft()), all);
  json["tbt"] = Ratio(static_cast<double>(metrics.attained_tbt()), all);
  return json;
}

Json Occupancy(const RunResult& result) {
  const Metrics& metrics = result.metrics;
  const double replicas = result.config.num_replicas();
  Json json;
  json["mean_running_requests"] = metrics.mean_running();
  json["mean_kv_blocks"] = metrics.mean_used_blocks();
  json["mean_kv_share"] = Ratio(metrics.mean_used_blocks() * replicas,
                                static_cast<double>(result.kv_blocks_total));
  json["busy_share"] =
      Ratio(metrics.busy().seconds(), metrics.makespan().seconds() * replicas);
  json["host_share"] =
      Ratio(metrics.host().seconds(), metrics.busy().seconds());
  json["prefill_iteration_share"] =
      Ratio(static_cast<double>(metrics.prefill_iterations()),
            static_cast<double>(metrics.iterations()));
  return json;
}

Json Ledger(const InterferenceLedger& ledger) {
  const std::pair<const char*, double> parts[] = {
      {"own_work", ledger.own_work},
      {"prefill", ledger.prefill},
      {"waiting", ledger.waiting},
      {"recomputation", ledger.recomputation}};
  Json json;
  for (const auto& [name, ns] : parts) {
    json[absl::StrCat(name, "_ms")] = ns / kNanosPerMilli;
  }
  json["total_ms"] = ledger.total() / kNanosPerMilli;
  for (const auto& [name, ns] : parts) {
    json[absl::StrCat(name, "_share")] = Ratio(ns, ledger.total());
  }
  return json;
}

void Flatten(const std::string& prefix, const Json& json, std::string& csv) {
  if (json.is_object()) {
    for (const auto& item : json.items()) {
      if (prefix.empty() && item.key() == "simulator") continue;
      Flatten(
          prefix.empty() ? item.key() : absl::StrCat(prefix, ".", item.key()),
          item.value(), csv);
    }
  } else if (json.is_number()) {
    CsvRow row;
    row.Text(prefix).Text(json.dump()).End();
    csv += row.text();
  }
}

double Variance(const std::vector<double>& values, double mean) {
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum / static_cast<double>(values.size() - 1);
}

// Writes means into `mean` and half-widths into `half`, both shaped like
// `all[0]`.
void Combine(const std::vector<const Json*>& all, Json& mean, Json& half) {
  const Json& first = *all[0];
  if (first.is_object()) {
    mean = half = Json::object();
    for (const auto& item : first.items()) {
      std::vector<const Json*> children;
      for (const Json* json : all) {
        const auto child = json->find(item.key());
        if (child != json->end()) children.push_back(&*child);
      }
      // A rejection reason of one run need not be another's.
      if (children.size() != all.size()) continue;
      Json child_mean;
      Json child_half;
      Combine(children, child_mean, child_half);
      if (!child_mean.is_null()) mean[item.key()] = std::move(child_mean);
      if (!child_half.is_null()) half[item.key()] = std::move(child_half);
    }
    if (half.empty()) half = nullptr;
    return;
  }
  if (!first.is_number()) {
    for (const Json* json : all) {
      if (*json != first) return;
    }
    mean = first;
    return;
  }
  std::vector<double> values;
  double sum = 0;
  for (const Json* json : all) {
    values.push_back(json->get<double>());
    sum += values.back();
  }
  const double n = static_cast<double>(values.size());
  mean = sum / n;
  half = StudentT975(static_cast<int>(values.size()) - 1) *
         std::sqrt(Variance(values, sum / n) / n);
}

// ---- For a terminal ----

void LatencyRow(const Json& summary, const char* label, const char* key,
                std::string& text) {
  const Json& row = summary.at(key);
  absl::StrAppendFormat(
      &text, "  %-16s %10.2f %10.2f %10.2f %10.2f %10.2f %10.2f\n", label,
      row.at("mean").get<double>(), row.at("p50").get<double>(),
      row.at("p90").get<double>(), row.at("p95").get<double>(),
      row.at("p99").get<double>(), row.at("max").get<double>());
}

double Number(const Json& summary, const char* group, const char* key) {
  return summary.at(group).at(key).get<double>();
}

void Rejections(const Json& summary, std::string& text) {
  const Json& requests = summary.at("requests");
  const auto reasons = requests.find("rejections");
  if (reasons == requests.end()) return;
  for (const auto& item : reasons->items()) {
    absl::StrAppendFormat(&text, "                   %s: %.0f\n", item.key(),
                          item.value().get<double>());
  }
}

}  // namespace

Json SummaryJson(const RunResult& result) {
  const Metrics& metrics = result.metrics;
  Json json;
  json["run"] = Identity(result.config);
  json["requests"] = Requests(result);
  json["ttft_ms"] = Millis(metrics.ttft());
  json["tpot_ms"] = Millis(metrics.tpot());
  json["tbt_ms"] = Millis(metrics.tbt());
  json["e2e_ms"] = Millis(metrics.e2e());
  json["queueing_delay_ms"] = Millis(metrics.queueing_delay());
  json["normalized_latency_ms_per_token"] =
      Millis(metrics.normalized_latency());
  json["longest_tbt_ms"] = Millis(metrics.longest_gap());
  json["throughput"] = Throughput(metrics);
  json["goodput"]["requests_per_s"] =
      Ratio(static_cast<double>(metrics.attained_slo()),
            metrics.makespan().seconds());
  json["slo_attainment"] = SloAttainment(metrics);
  json["iterations"] = metrics.iterations();
  json["preemptions"] = metrics.preemptions();
  json["recomputed_tokens"] = metrics.recomputed_tokens();
  json["makespan_s"] = metrics.makespan().seconds();
  json["kv_blocks"]["total"] = result.kv_blocks_total;
  json["kv_blocks"]["peak"] = result.kv_blocks_peak;
  json["prefix_hit_tokens"] = metrics.prefix_hit_tokens();
  json["tokens"]["prompt"] = metrics.prompt_tokens();
  json["tokens"]["output"] = metrics.output_tokens();
  json["occupancy"] = Occupancy(result);
  json["utilization"]["mfu"] = result.utilization.mfu;
  json["utilization"]["mbu"] = result.utilization.mbu;
  json["fairness_jain"] = metrics.JainFairness();
  json["interference_ledger"] = Ledger(metrics.ledger());
  json["cost_model"]["description"] = result.cost_description;
  json["cost_model"]["queries"] = result.cost.queries;
  json["cost_model"]["queries_outside_grid"] = result.cost.outside_grid;
  json["notices"] = result.notices;
  json["fingerprint"] = absl::StrFormat("%016x", result.fingerprint);
  json["simulator"]["wall_s"] = result.wall_seconds;
  json["simulator"]["iterations_per_s"] =
      Ratio(static_cast<double>(metrics.iterations()), result.wall_seconds);
  json["simulator"]["peak_rss_bytes"] = result.peak_rss_bytes;
  return json;
}

std::string SummaryCsv(const Json& summary) {
  std::string csv = "metric,value\n";
  Flatten("", summary, csv);
  return csv;
}

std::string SummaryText(const Json& summary) {
  std::string text;
  absl::StrAppendFormat(&text, "  %-16s %10s %10s %10s %10s %10s %10s\n",
                        "milliseconds", "mean", "P50", "P90", "P95", "P99",
                        "max");
  LatencyRow(summary, "TTFT", "ttft_ms", text);
  LatencyRow(summary, "TPOT", "tpot_ms", text);
  LatencyRow(summary, "TBT", "tbt_ms", text);
  LatencyRow(summary, "E2E", "e2e_ms", text);
  LatencyRow(summary, "queueing delay", "queueing_delay_ms", text);
  absl::StrAppendFormat(&text,
                        "\n  requests         %.0f completed, %.0f rejected\n",
                        Number(summary, "requests", "completed"),
                        Number(summary, "requests", "rejected"));
  Rejections(summary, text);
  absl::StrAppendFormat(
      &text,
      "  throughput       %.3f requests/s, %.1f output tokens/s, %.1f tokens/s "
      "in all\n",
      Number(summary, "throughput", "requests_per_s"),
      Number(summary, "throughput", "output_tokens_per_s"),
      Number(summary, "throughput", "total_tokens_per_s"));
  absl::StrAppendFormat(
      &text,
      "  SLO attainment   %.1f%% (TTFT %.1f%%, TBT %.1f%%), goodput %.3f "
      "requests/s\n",
      100 * Number(summary, "slo_attainment", "both"),
      100 * Number(summary, "slo_attainment", "ttft"),
      100 * Number(summary, "slo_attainment", "tbt"),
      Number(summary, "goodput", "requests_per_s"));
  absl::StrAppendFormat(
      &text,
      "  iterations       %.0f in %.3f s simulated; %.0f preemptions, %.0f "
      "tokens recomputed\n",
      summary.at("iterations").get<double>(),
      summary.at("makespan_s").get<double>(),
      summary.at("preemptions").get<double>(),
      summary.at("recomputed_tokens").get<double>());
  absl::StrAppendFormat(
      &text,
      "  KV blocks        %.0f, at most %.0f in use; %.0f prompt tokens found "
      "in the prefix cache\n",
      Number(summary, "kv_blocks", "total"),
      Number(summary, "kv_blocks", "peak"),
      summary.at("prefix_hit_tokens").get<double>());
  absl::StrAppendFormat(
      &text,
      "  time of gaps     %.1f%% own work, %.1f%% prefill of others, %.1f%% "
      "waiting, %.1f%% recomputation\n",
      100 * Number(summary, "interference_ledger", "own_work_share"),
      100 * Number(summary, "interference_ledger", "prefill_share"),
      100 * Number(summary, "interference_ledger", "waiting_share"),
      100 * Number(summary, "interference_ledger", "recomputation_share"));
  absl::StrAppendFormat(
      &text,
      "  utilization      MFU %.1f%%, MBU %.1f%%, %.1f running on average\n",
      100 * Number(summary, "utilization", "mfu"),
      100 * Number(summary, "utilization", "mbu"),
      Number(summary, "occupancy", "mean_running_requests"));
  if (Number(summary, "cost_model", "queries_outside_grid") > 0) {
    absl::StrAppendFormat(
        &text,
        "  cost model       %.0f of %.0f queries lie outside what was "
        "measured\n",
        Number(summary, "cost_model", "queries_outside_grid"),
        Number(summary, "cost_model", "queries"));
  }
  absl::StrAppendFormat(
      &text, "  simulator        %.3f s, %.3g iterations/s, %.1f MiB at most\n",
      Number(summary, "simulator", "wall_s"),
      Number(summary, "simulator", "iterations_per_s"),
      Number(summary, "simulator", "peak_rss_bytes") / (1 << 20));
  return text;
}

Json CombineSeeds(const std::vector<Json>& summaries) {
  CHECK_GE(summaries.size(), size_t{2});
  std::vector<const Json*> all;
  Json seeds = Json::array();
  for (const Json& summary : summaries) {
    all.push_back(&summary);
    seeds.push_back(summary.at("run").at("seed"));
  }
  Json mean;
  Json half;
  Combine(all, mean, half);
  mean["run"].erase("seed");
  mean["run"]["seeds"] = std::move(seeds);
  half.erase("run");
  half.erase("simulator");
  mean["confidence_95"] = std::move(half);
  return mean;
}

double StudentT975(int degrees_of_freedom) {
  CHECK_GE(degrees_of_freedom, 1);
  constexpr double kTable[] = {12.706205, 4.302653, 3.182446, 2.776445,
                               2.570582,  2.446912, 2.364624, 2.306004,
                               2.262157,  2.228139};
  constexpr int kTableSize = sizeof(kTable) / sizeof(kTable[0]);
  if (degrees_of_freedom <= kTableSize) return kTable[degrees_of_freedom - 1];
  // Abramowitz and Stegun, 26.7.5.
  constexpr double z = 1.959963985;
  constexpr double z2 = z * z;
  const double d = degrees_of_freedom;
  const double g1 = (z2 + 1) / 4;
  const double g2 = ((5 * z2 + 16) * z2 + 3) / 96;
  const double g3 = (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384;
  const double g4 =
      ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / 92160;
  return z * (1 + (g1 + (g2 + (g3 + g4 / d) / d) / d) / d);
}

}  // namespace interleave::sim
