// Holds simulations from published kernel tables against real servers under a
// closed loop of users, and prints how far each is off.

#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/command_line.h"
#include "base/parallel_for.h"
#include "base/status_macros.h"
#include "base/text_file.h"
#include "sim/config/config.h"
#include "sim/config/simulation.pb.h"
#include "sim/cost/text_proto.h"
#include "sim/fidelity/closed_loop.h"

namespace interleave::sim {
namespace {

// As `bazel run` sees it, and a program started in the repository's root.
constexpr char kServers[] = "sim/fidelity/";

struct Request {
  std::string data;
  std::vector<std::string> settings;
  bool help = false;
};

absl::StatusOr<SimulationConfig> ReadServer(const ClosedLoopPoint& point,
                                            const Request& request) {
  const std::string path = absl::StrCat(kServers, ClosedLoopServerFile(point));
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  SimulationConfig server;
  RETURN_IF_ERROR(ParseTextProto(text, path, &server));
  server.mutable_cost()->mutable_kernel_tables()->set_directory(
      absl::StrCat(request.data, "/kernel_tables"));
  for (const std::string& setting : request.settings) {
    RETURN_IF_ERROR(SetField(setting, &server));
  }
  return server;
}

absl::Status Simulate(const Request& request) {
  const std::string path =
      absl::StrCat(request.data, "/closed_loop/h100_vllm.csv");
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  ASSIGN_OR_RETURN(const std::vector<ClosedLoopPoint> points,
                   ReadClosedLoopPoints(text, path));
  std::vector<ClosedLoopResult> results;
  std::vector<SimulationConfig> servers;
  for (const ClosedLoopPoint& point : points) {
    if (ClosedLoopServerFile(point).empty()) continue;
    ASSIGN_OR_RETURN(SimulationConfig server, ReadServer(point, request));
    results.push_back({point, {}});
    servers.push_back(std::move(server));
  }
  std::vector<absl::Status> statuses(results.size());
  ParallelFor(results.size(), 0, [&](size_t i) {
    const auto simulated = SimulateClosedLoop(results[i].point, servers[i]);
    statuses[i] = simulated.status();
    if (simulated.ok()) results[i].simulated = *simulated;
  });
  for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
  std::cout << ToTable(results) << "\n"
            << ToTable(SummarizeClosedLoop(results)) << "\n"
            << "On the points that other estimators have predicted:\n"
            << ToTable(CompareEstimators(results)) << "\n"
            << points.size() - results.size()
            << " measurements left out, because how they were made is not "
               "known (docs/fidelity.md)\n";
  return absl::OkStatus();
}

absl::Status Run(const std::vector<std::string>& args) {
  Request request;
  const std::vector<Flag> flags = {
      StringFlag("data", "DIR",
                 "a folder with closed_loop/h100_vllm.csv and kernel_tables/ "
                 "(README.md says where they are published)",
                 &request.data),
      {"set", "PATH=VALUE",
       "changes a setting of every server, "
       "e.g. cost.host_overhead.constant_us=0",
       [&request](absl::string_view value) {
         request.settings.emplace_back(value);
         return absl::OkStatus();
       }},
      SwitchFlag("help", "prints this", &request.help),
  };
  RETURN_IF_ERROR(ParseFlags(flags, args));
  if (request.help) {
    std::cout << "Simulates real vLLM servers from published kernel tables "
                 "and prints the errors.\n\n"
              << FlagHelp(flags);
    return absl::OkStatus();
  }
  if (request.data.empty()) {
    return absl::InvalidArgumentError(
        "give --data=DIR, a folder with closed_loop/h100_vllm.csv and "
        "kernel_tables/");
  }
  // `bazel run` starts programs in a folder of its own; paths are the user's.
  const char* folder = std::getenv("BUILD_WORKING_DIRECTORY");
  if (folder != nullptr && request.data.front() != '/') {
    request.data = absl::StrCat(folder, "/", request.data);
  }
  return Simulate(request);
}

}  // namespace
}  // namespace interleave::sim

int main(int argc, char** argv) {
  const absl::Status status =
      interleave::sim::Run(std::vector<std::string>(argv + 1, argv + argc));
  if (!status.ok()) std::cerr << "closed_loop: " << status.message() << "\n";
  return interleave::ExitStatus(status);
}
