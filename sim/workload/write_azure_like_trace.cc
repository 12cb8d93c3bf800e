// Writes a trace with the statistics of the Azure 2023 conversation trace:
//
//   bazel run //sim/workload:write_azure_like_trace > trace.csv
//
// sim/experiments/azure_like_conversation.csv is its output without arguments.
// Optional arguments: the number of requests, the seed.

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/status/statusor.h"
#include "base/parse_number.h"
#include "sim/workload/azure_like_trace.h"

namespace interleave::sim {
namespace {

constexpr int64_t kNumRequests = 2000;
constexpr int64_t kSeed = 2023;

int Run(int argc, char** argv) {
  const absl::StatusOr<int64_t> num_requests =
      argc > 1 ? ParseInt(argv[1], 1, 2'000'000) : kNumRequests;
  const absl::StatusOr<int64_t> seed =
      argc > 2 ? ParseInt(argv[2], 0, 1'000'000'000) : kSeed;
  for (const auto* argument : {&num_requests, &seed}) {
    if (argument->ok()) continue;
    std::fprintf(stderr, "%s %s\n",
                 argument == &seed ? "seed" : "number of requests",
                 std::string(argument->status().message()).c_str());
    return 2;
  }
  const std::string text =
      AzureLikeTrace(*num_requests, static_cast<uint64_t>(*seed));
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
      std::fflush(stdout) == 0;
  if (!written) std::perror("standard output");
  return written ? 0 : 1;
}

}  // namespace
}  // namespace interleave::sim

int main(int argc, char** argv) { return interleave::sim::Run(argc, argv); }
