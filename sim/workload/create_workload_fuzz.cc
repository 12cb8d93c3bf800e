// libFuzzer: any configuration in text format that opens no file builds a
// workload whose first requests are sound, or is refused.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/sim_time.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "scheduler/request_spec.h"
#include "sim/workload/create_workload.h"
#include "sim/workload/workload.h"
#include "sim/workload/workload.pb.h"

namespace {

using ::interleave::SimTime;
using ::interleave::scheduler::RequestSpec;
using ::interleave::sim::Workload;
using ::interleave::sim::WorkloadConfig;

// Keeps the fuzzer from reading files and from allocating a user each for
// millions.
bool IsHarmless(const WorkloadConfig& config) {
  return !config.has_trace() && !config.generator().has_length_pairs() &&
         !config.generator().prompt_tokens().has_resampled() &&
         !config.generator().output_tokens().has_resampled() &&
         config.arrival().closed_loop().users() < 1000;
}

class Silent : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {}
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  WorkloadConfig config;
  Silent silent;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&silent);
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (!parser.ParseFromString(text, &config) || !IsHarmless(config)) return 0;
  const absl::StatusOr<std::unique_ptr<Workload>> workload =
      interleave::sim::CreateWorkload(config, 1, nullptr);
  if (!workload.ok()) return 0;
  SimTime last = SimTime::Zero();
  for (int64_t id = 0;
       id < 100 && (*workload)->NextArrival() < SimTime::Infinity(); ++id) {
    const RequestSpec spec = (*workload)->Next();
    CHECK_EQ(spec.id, id);
    CHECK(spec.arrival >= last);
    last = spec.arrival;
    CHECK_GE(spec.prompt_tokens, 1);
    CHECK_GE(spec.output_tokens, 1);
    CHECK_GE(spec.max_output_tokens, spec.output_tokens);
    (*workload)->OnRequestDone(id, last);
  }
  return 0;
}
