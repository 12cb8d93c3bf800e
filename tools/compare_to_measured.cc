// Holds a simulated run against a real server's log:
//
//   bazel run -c opt //tools:compare_to_measured --
//       --simulated=out/requests.csv --measured=requests.jsonl

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/command_line.h"
#include "base/csv.h"
#include "base/sim_time.h"
#include "base/status_macros.h"
#include "base/text_file.h"
#include "sim/fidelity/latencies.h"

namespace interleave::tools {
namespace {

// The completed requests of a requests.csv that tools/simulate wrote.
absl::StatusOr<std::vector<sim::RequestTimes>> ReadSimulatedRequests(
    absl::string_view text, absl::string_view name) {
  constexpr double kLatest = 9e9;
  CsvReader csv(text, name);
  RETURN_IF_ERROR(csv.ReadHeader());
  ASSIGN_OR_RETURN(const int status, csv.Column("status"));
  ASSIGN_OR_RETURN(const int tokens, csv.Column("output_tokens"));
  ASSIGN_OR_RETURN(const int arrival, csv.Column("arrival_s"));
  ASSIGN_OR_RETURN(const int first, csv.Column("first_token_s"));
  ASSIGN_OR_RETURN(const int last, csv.Column("last_token_s"));
  std::vector<sim::RequestTimes> requests;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, csv.Next());
    if (!more) break;
    if (csv.Text(status) != "completed") continue;
    sim::RequestTimes times;
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

absl::Status Run(const std::vector<std::string>& args) {
  std::string simulated_path;
  std::string measured_path;
  RETURN_IF_ERROR(ParseFlags(
      {StringFlag("simulated", "FILE",
                  "requests.csv of a run of tools/simulate", &simulated_path),
       StringFlag("measured", "FILE",
                  "the server's log, a JSON object a line with output_toks, "
                  "queued_ts, first_token_ts and last_token_ts in seconds",
                  &measured_path)},
      args));
  if (simulated_path.empty() || measured_path.empty()) {
    return absl::InvalidArgumentError(
        "give both --simulated=FILE and --measured=FILE");
  }
  ASSIGN_OR_RETURN(const std::string simulated_text,
                   ReadTextFile(simulated_path));
  ASSIGN_OR_RETURN(const std::string measured_text,
                   ReadTextFile(measured_path));
  ASSIGN_OR_RETURN(const auto simulated,
                   ReadSimulatedRequests(simulated_text, simulated_path));
  ASSIGN_OR_RETURN(const auto measured,
                   sim::ReadMeasuredRequests(measured_text, measured_path));
  std::cout << measured.size() << " requests measured, " << simulated.size()
            << " simulated\n"
            << sim::ToTable(sim::Compare(sim::LatenciesOf(measured),
                                         sim::LatenciesOf(simulated)));
  return absl::OkStatus();
}

}  // namespace
}  // namespace interleave::tools

int main(int argc, char** argv) {
  // `bazel run` starts programs in a folder of its own; paths are the user's.
  if (const char* folder = std::getenv("BUILD_WORKING_DIRECTORY");
      folder != nullptr && chdir(folder) != 0) {
    std::cerr << "compare_to_measured: cannot enter " << folder << "\n";
    return 1;
  }
  const absl::Status status =
      interleave::tools::Run(std::vector<std::string>(argv + 1, argv + argc));
  if (status.ok()) return 0;
  std::cerr << "compare_to_measured: " << status.message() << "\n";
  return 2;
}
