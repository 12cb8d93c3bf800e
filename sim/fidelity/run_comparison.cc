#include "sim/fidelity/run_comparison.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "base/csv.h"
#include "base/sim_time.h"
#include "base/statistics.h"
#include "base/status_macros.h"
#include "base/text_file.h"
#include "sim/output/repeat_folder.h"

namespace interleave::sim {
namespace {

namespace fs = std::filesystem;

constexpr char kRequests[] = "requests.csv";

absl::StatusOr<Latencies> LatenciesIn(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kRequests);
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  ASSIGN_OR_RETURN(const auto requests, ReadRunRequests(text, path));
  return LatenciesOf(requests);
}

bool IsMeanOrP90(const Deviation& deviation) {
  return absl::EndsWith(deviation.statistic, " mean") ||
         absl::EndsWith(deviation.statistic, " P90");
}

// Folders of runs, by the folder that stands for their repeats.
using Runs = std::map<std::string, std::vector<std::string>>;

absl::StatusOr<Runs> RunsBelow(const std::string& root) {
  ASSIGN_OR_RETURN(const std::vector<std::string> folders,
                   FoldersWith(root, kRequests));
  Runs runs;
  for (const std::string& folder : folders) {
    runs[std::string(WithoutRepeat(folder))].push_back(folder);
  }
  return runs;
}

// All statistics of each run, as measured ones.
absl::StatusOr<std::vector<std::vector<Deviation>>> StatisticsIn(
    const std::string& root, const std::vector<std::string>& folders) {
  std::vector<std::vector<Deviation>> runs;
  for (const std::string& folder : folders) {
    ASSIGN_OR_RETURN(const Latencies latencies,
                     LatenciesIn(absl::StrCat(root, "/", folder)));
    runs.push_back(Compare(latencies, Latencies()));
  }
  return runs;
}

// Of the i-th statistic.
Spread SpreadIn(const std::vector<std::vector<Deviation>>& runs, size_t i) {
  std::vector<double> values;
  for (const auto& statistics : runs)
    values.push_back(statistics[i].measured_ms);
  return SpreadOf(values);
}

absl::StatusOr<std::vector<Deviation>> CompareAll(
    const std::string& measured_root, const std::vector<std::string>& measured,
    const std::string& simulated_root,
    const std::vector<std::string>& simulated) {
  ASSIGN_OR_RETURN(const auto of_measured,
                   StatisticsIn(measured_root, measured));
  ASSIGN_OR_RETURN(const auto of_simulated,
                   StatisticsIn(simulated_root, simulated));
  std::vector<Deviation> deviations;
  for (size_t i = 0; i < of_measured[0].size(); ++i) {
    if (!IsMeanOrP90(of_measured[0][i])) continue;
    const Spread a = SpreadIn(of_measured, i);
    const Spread b = SpreadIn(of_simulated, i);
    deviations.push_back({of_measured[0][i].statistic, a.mean, b.mean,
                          a.deviation, b.deviation});
  }
  return deviations;
}

// A column of times, with their standard deviations where any are means.
std::string Cell(double ms, size_t runs, double deviation_ms, bool any_means) {
  if (!any_means) return absl::StrFormat("%14.2f", ms);
  return absl::StrFormat(
      "%14.2f %-10s", ms,
      runs > 1 ? absl::StrFormat("+- %.2f", deviation_ms) : "");
}

}  // namespace

absl::StatusOr<std::vector<RequestTimes>> ReadRunRequests(
    absl::string_view text, absl::string_view name) {
  constexpr double kLatest = 9e9;
  CsvReader csv(text, name);
  RETURN_IF_ERROR(csv.ReadHeader());
  ASSIGN_OR_RETURN(const int status, csv.Column("status"));
  ASSIGN_OR_RETURN(const int tokens, csv.Column("output_tokens"));
  ASSIGN_OR_RETURN(const int arrival, csv.Column("arrival_s"));
  ASSIGN_OR_RETURN(const int first, csv.Column("first_token_s"));
  ASSIGN_OR_RETURN(const int last, csv.Column("last_token_s"));
  std::vector<RequestTimes> requests;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, csv.Next());
    if (!more) break;
    if (csv.Text(status) != "completed") continue;
    RequestTimes times;
    ASSIGN_OR_RETURN(const int64_t output, csv.Int(tokens, 1, 1 << 30));
    ASSIGN_OR_RETURN(const double t0, csv.Double(arrival, 0, kLatest));
    ASSIGN_OR_RETURN(const double t1, csv.Double(first, 0, kLatest));
    ASSIGN_OR_RETURN(const double t2, csv.Double(last, 0, kLatest));
    times.output_tokens = static_cast<int32_t>(output);
    times.arrival = SimTime::FromSeconds(t0);
    times.first_token = SimTime::FromSeconds(t1);
    times.last_token = SimTime::FromSeconds(t2);
    requests.push_back(times);
  }
  return requests;
}

absl::StatusOr<std::vector<std::string>> FoldersWith(const std::string& root,
                                                     const std::string& file) {
  std::vector<std::string> folders;
  std::error_code error;
  fs::recursive_directory_iterator it(root, error);
  for (; !error && it != fs::recursive_directory_iterator();
       it.increment(error)) {
    if (it->path().filename() != file) continue;
    const fs::path below = it->path().parent_path().lexically_relative(root);
    folders.push_back(below == "." ? "" : below.string());
  }
  if (error) {
    return absl::NotFoundError(
        absl::StrCat(root, ": cannot be listed: ", error.message()));
  }
  if (folders.empty()) {
    return absl::NotFoundError(
        absl::StrCat(root, ": there is no ", file, " in it or below it"));
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::string RunPair::load() const {
  const size_t slash = name.rfind('/');
  return slash == std::string::npos ? "" : name.substr(0, slash);
}

std::string RunPair::policy() const { return name.substr(name.rfind('/') + 1); }

absl::StatusOr<std::vector<RunPair>> PairRuns(
    const std::string& measured_root, const std::string& simulated_root) {
  ASSIGN_OR_RETURN(const Runs measured, RunsBelow(measured_root));
  ASSIGN_OR_RETURN(const Runs simulated, RunsBelow(simulated_root));
  std::vector<RunPair> pairs;
  for (const auto& [name, measured_runs] : measured) {
    const auto found = simulated.find(name);
    if (found == simulated.end()) continue;
    RunPair pair;
    pair.name = name;
    pair.measured_runs = measured_runs.size();
    pair.simulated_runs = found->second.size();
    ASSIGN_OR_RETURN(pair.deviations,
                     CompareAll(measured_root, measured_runs, simulated_root,
                                found->second));
    pairs.push_back(std::move(pair));
  }
  if (pairs.empty()) {
    return absl::NotFoundError(absl::StrCat("no run of ", measured_root,
                                            " has one of the same name below ",
                                            simulated_root));
  }
  return pairs;
}

std::vector<Swap> CompareRankings(absl::Span<const RunPair> pairs) {
  std::vector<Swap> swaps;
  for (const RunPair& a : pairs) {
    for (const RunPair& b : pairs) {
      if (a.load() != b.load()) continue;
      for (size_t i = 0; i < a.deviations.size(); ++i) {
        const Deviation& x = a.deviations[i];
        const Deviation& y = b.deviations[i];
        // Each pair of policies once: the better first.
        if (x.measured_ms >= y.measured_ms) continue;
        if (x.simulated_ms <= y.simulated_ms) continue;
        swaps.push_back({a.load(), x.statistic, a.policy(), b.policy(),
                         y.measured_ms / x.measured_ms - 1});
      }
    }
  }
  return swaps;
}

std::string ToTable(absl::Span<const RunPair> pairs) {
  size_t width = 4;
  bool measured_means = false;
  bool simulated_means = false;
  for (const RunPair& pair : pairs) {
    width = std::max(width, pair.name.size());
    measured_means |= pair.measured_runs > 1;
    simulated_means |= pair.simulated_runs > 1;
  }
  const int w = static_cast<int>(width);
  std::string table = absl::StrFormat(
      "%-*s %-10s %14s%s %14s%s %8s\n", w, "run", "statistic", "measured ms",
      measured_means ? std::string(11, ' ') : "", "simulated ms",
      simulated_means ? std::string(11, ' ') : "", "error");
  double largest = 0;
  for (const RunPair& pair : pairs) {
    for (const Deviation& d : pair.deviations) {
      absl::StrAppendFormat(&table, "%-*s %-10s %s %s %+7.2f%%\n", w, pair.name,
                            d.statistic,
                            Cell(d.measured_ms, pair.measured_runs,
                                 d.measured_deviation_ms, measured_means),
                            Cell(d.simulated_ms, pair.simulated_runs,
                                 d.simulated_deviation_ms, simulated_means),
                            100 * d.relative());
      largest = std::max(largest, std::abs(d.relative()));
    }
  }
  absl::StrAppendFormat(&table, "largest error %.2f%%\n", 100 * largest);
  return table;
}

std::string ToText(absl::Span<const Swap> swaps) {
  if (swaps.empty()) return "The policies rank the same in every statistic.\n";
  std::string text;
  for (const Swap& swap : swaps) {
    absl::StrAppendFormat(
        &text, "%s%s%s: %s is better than %s by %.2f%%, simulated worse\n",
        swap.load, swap.load.empty() ? "" : ", ", swap.statistic, swap.better,
        swap.worse, 100 * swap.measured_gap);
  }
  return text;
}

}  // namespace interleave::sim
