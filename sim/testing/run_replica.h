// RunReplica: one replica over a list of requests, for tests.

#ifndef SIM_TESTING_RUN_REPLICA_H_
#define SIM_TESTING_RUN_REPLICA_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "scheduler/limits.h"
#include "scheduler/policy.h"
#include "sim/cost/host_overhead.h"
#include "sim/cost/throttle.h"
#include "sim/metrics/metrics.h"
#include "sim/testing/linear_cost_model.h"
#include "sim/testing/list_workload.h"

namespace interleave::sim {

// Keeps every record.
class Recorder final : public RecordSink {
 public:
  void OnIteration(const IterationRecord& record) override {
    iterations.push_back(record);
  }
  void OnRequest(const RequestRecord& record) override {
    requests.push_back(record);
  }
  // REQUIRES: the request has ended.
  const RequestRecord& ById(int64_t id) const;

  std::vector<IterationRecord> iterations;
  // In order of ending.
  std::vector<RequestRecord> requests;
};

struct ReplicaSetup {
  scheduler::Limits limits;
  int32_t num_blocks = 1000;
  int32_t block_size = 16;
  bool prefix_caching = false;
  int32_t num_host_blocks = 0;
  bool fast_forward = true;
  bool async_scheduling = false;
  LinearCostModel::Coefficients ns = {.iteration = 100};
  ThrottleTable throttle;
  HostOverhead host;
  // Where false, the replica may take stretches of decodes at once.
  bool keep_records = true;
};

struct ReplicaRun {
  absl::Status status;
  Metrics metrics;
  Recorder records;
  uint64_t fingerprint = 0;
  int64_t free_blocks_at_end = 0;
};

// The invariants of the engine's state at the end are part of the status.
std::unique_ptr<ReplicaRun> RunReplica(
    const ReplicaSetup& setup, std::unique_ptr<scheduler::Policy> policy,
    ListWorkload workload);

}  // namespace interleave::sim

#endif  // SIM_TESTING_RUN_REPLICA_H_
