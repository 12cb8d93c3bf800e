#include "sim/testing/run_replica.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "scheduler/engine_state.h"
#include "scheduler/policy.h"
#include "sim/cost_model_executor.h"
#include "sim/metrics/metrics.h"
#include "sim/replica.h"
#include "sim/simulation.h"
#include "sim/testing/linear_cost_model.h"
#include "sim/testing/list_workload.h"

namespace interleave::sim {

const RequestRecord& Recorder::ById(int64_t id) const {
  const auto it = std::find_if(
      requests.begin(), requests.end(),
      [&](const RequestRecord& record) { return record.id == id; });
  CHECK(it != requests.end());
  return *it;
}

std::unique_ptr<ReplicaRun> RunReplica(
    const ReplicaSetup& setup, std::unique_ptr<scheduler::Policy> policy,
    ListWorkload workload) {
  auto run = std::make_unique<ReplicaRun>();
  Replica::Options options;
  options.policy_name = "test";
  options.fast_forward = setup.fast_forward;
  options.async_scheduling = setup.async_scheduling;
  options.engine.limits = setup.limits;
  options.engine.cache.num_blocks = setup.num_blocks;
  options.engine.cache.block_size = setup.block_size;
  options.engine.cache.enable_prefix_caching = setup.prefix_caching;
  options.engine.cache.num_host_blocks = setup.num_host_blocks;
  auto replica = Replica::Create(
      options, std::move(policy),
      std::make_unique<CostModelExecutor>(
          std::make_unique<LinearCostModel>(setup.ns, setup.throttle),
          setup.host),
      &run->metrics, &workload, setup.keep_records ? &run->records : nullptr);
  run->status = replica.status();
  if (!replica.ok()) return run;
  std::vector<std::unique_ptr<Replica>> replicas;
  replicas.push_back(*std::move(replica));
  RoundRobinRouter router;
  Simulation simulation(&workload, &router, std::move(replicas));
  run->status = simulation.Run();
  run->fingerprint = simulation.fingerprint();
  const scheduler::EngineState& state = simulation.replicas()[0]->state();
  if (run->status.ok()) run->status = state.CheckInvariants();
  run->free_blocks_at_end = state.cache().free_blocks();
  return run;
}

}  // namespace interleave::sim
