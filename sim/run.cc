#include "sim/run.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/sim_time.h"
#include "base/status_macros.h"
#include "scheduler/limits.h"
#include "scheduler/policy.h"
#include "scheduler/registry.h"
#include "scheduler/request_spec.h"
#include "sim/config/config.h"
#include "sim/config/simulation.pb.h"
#include "sim/config/trace_head.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/create_cost_model.h"
#include "sim/cost/device.pb.h"
#include "sim/cost/host_overhead.h"
#include "sim/cost/model.pb.h"
#include "sim/cost/model_math.h"
#include "sim/cost/profile_tables.h"
#include "sim/cost/shipped_profiles.h"
#include "sim/cost/specs.h"
#include "sim/cost_model_executor.h"
#include "sim/executor.h"
#include "sim/jittered_executor.h"
#include "sim/kernel_executor/batch_runner.h"
#include "sim/kernel_executor/decoder_options.h"
#include "sim/kernel_executor/kernel_executor.h"
#include "sim/kernel_executor/runner_registry.h"
#include "sim/metrics/metrics.h"
#include "sim/replica.h"
#include "sim/run_result.h"
#include "sim/simulation.h"
#include "sim/utilization.h"
#include "sim/workload/create_workload.h"
#include "sim/workload/workload.h"

namespace interleave::sim {
namespace {

// A workload whose requests get the targets that they do not bring.
class DefaultSloWorkload final : public Workload {
 public:
  DefaultSloWorkload(std::unique_ptr<Workload> workload, scheduler::Slo slo)
      : workload_(std::move(workload)), slo_(slo) {}

  SimTime NextArrival() override { return workload_->NextArrival(); }
  scheduler::RequestSpec Next() override {
    scheduler::RequestSpec spec = workload_->Next();
    if (spec.slo.ttft == SimDuration::Max()) spec.slo.ttft = slo_.ttft;
    if (spec.slo.tbt == SimDuration::Max()) spec.slo.tbt = slo_.tbt;
    return spec;
  }
  void OnRequestDone(int64_t id, SimTime now) override {
    workload_->OnRequestDone(id, now);
  }
  int64_t TotalRequests() const override { return workload_->TotalRequests(); }

 private:
  const std::unique_ptr<Workload> workload_;
  const scheduler::Slo slo_;
};

// What a run is made of, before its first event.
struct Setup {
  SimulationConfig config;
  ModelSpec model;
  DeviceSpec device;
  std::string kv_memory;
};

absl::StatusOr<SimDuration> Target(absl::string_view field, double ms) {
  if (!(ms >= 0 && ms <= 1e12)) {
    return absl::InvalidArgumentError(
        absl::StrCat("slo.", field, " is ", ms,
                     "; it must be between 0 (no target) and 1e12"));
  }
  return ms == 0 ? SimDuration::Max() : SimDuration::Millis(ms);
}

absl::StatusOr<std::unique_ptr<Workload>> MakeWorkload(
    const SimulationConfig& config, std::vector<std::string>* notices) {
  ASSIGN_OR_RETURN(std::unique_ptr<Workload> workload,
                   CreateWorkload(config.workload(), config.seed(), notices));
  scheduler::Slo slo;
  ASSIGN_OR_RETURN(slo.ttft, Target("ttft_ms", config.slo().ttft_ms()));
  ASSIGN_OR_RETURN(slo.tbt, Target("tbt_ms", config.slo().tbt_ms()));
  if (slo == scheduler::Slo()) return workload;
  return std::make_unique<DefaultSloWorkload>(std::move(workload), slo);
}

// Settles what the first line of a trace decides: its format, and whether
// looking for prefixes can find any.
absl::Status SettleTrace(SimulationConfig& config) {
  bool names_prefixes = config.workload().has_shared_prefix();
  if (config.workload().has_trace()) {
    TraceConfig& trace = *config.mutable_workload()->mutable_trace();
    ASSIGN_OR_RETURN(const TraceHead head, ReadTraceHead(trace));
    trace.set_format(head.format);
    names_prefixes = names_prefixes || head.names_prefixes;
  }
  if (!config.cache().has_enable_prefix_caching()) {
    config.mutable_cache()->set_enable_prefix_caching(names_prefixes);
  }
  return absl::OkStatus();
}

bool RunsKernels(const SimulationConfig& config) {
  return config.executor() != SimulationConfig::COST_MODEL;
}

absl::Status CheckKind(const SimulationConfig& config) {
  if (config.num_replicas() != 1) {
    return absl::UnimplementedError(
        absl::StrCat("num_replicas is ", config.num_replicas(),
                     "; only one replica can be run"));
  }
  const double jitter = config.device_time_jitter();
  if (!(jitter >= 0 && jitter <= JitteredExecutor::kMostJitter)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "device_time_jitter is ", jitter, "; it must be between 0 and ",
        JitteredExecutor::kMostJitter));
  }
  if (!RunsKernels(config)) return absl::OkStatus();
  constexpr char kRemedy[] = "; use executor: COST_MODEL";
  if (config.cost().tensor_parallel() != 1) {
    return absl::UnimplementedError(absl::StrCat(
        "cost.tensor_parallel is ", config.cost().tensor_parallel(),
        ", and the kernels run on one GPU", kRemedy));
  }
  if (config.cache().num_host_blocks() != 0) {
    return absl::UnimplementedError(absl::StrCat(
        "cache.num_host_blocks is ", config.cache().num_host_blocks(),
        ", and the kernels swap nothing to the host", kRemedy));
  }
  if (config.async_scheduling()) {
    return absl::UnimplementedError(absl::StrCat(
        "async_scheduling is on, and no iteration is planned while kernels "
        "run",
        kRemedy));
  }
  if (jitter != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("device_time_jitter is ", jitter,
                     ", and kernels take what they take", kRemedy));
  }
  return absl::OkStatus();
}

// Decides how many KV blocks there are, and writes it into the configuration.
absl::Status SettleKvMemory(Setup& setup) {
  CacheConfig& cache = *setup.config.mutable_cache();
  if (cache.num_blocks() < 0 || cache.num_host_blocks() < 0 ||
      cache.block_size() < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cache has num_blocks ", cache.num_blocks(), ", num_host_blocks ",
        cache.num_host_blocks(), " and block_size ", cache.block_size(),
        "; blocks must be at least 0 and their size at least 1"));
  }
  // The runner counts its own memory.
  if (RunsKernels(setup.config)) return absl::OkStatus();
  if (cache.num_blocks() > 0) {
    setup.kv_memory =
        absl::StrCat("KV memory: ", cache.num_blocks(), " blocks of ",
                     cache.block_size(), " tokens, as given");
    return absl::OkStatus();
  }
  KvMemoryOptions options;
  options.gpu_memory_utilization = cache.gpu_memory_utilization();
  options.block_size = cache.block_size();
  options.tensor_parallel = setup.config.cost().tensor_parallel();
  options.max_num_batched_tokens =
      setup.config.limits().max_num_batched_tokens();
  options.max_num_seqs = setup.config.limits().max_num_seqs();
  ASSIGN_OR_RETURN(KvMemory memory,
                   DeriveKvMemory(setup.model, setup.device, options));
  setup.kv_memory = std::move(memory.explanation);
  constexpr int64_t kMaxBlocks = std::numeric_limits<int32_t>::max();
  cache.set_num_blocks(
      static_cast<int32_t>(std::min<int64_t>(memory.num_blocks, kMaxBlocks)));
  return absl::OkStatus();
}

absl::StatusOr<Setup> Resolve(const SimulationConfig& config) {
  Setup setup;
  setup.config = config;
  RETURN_IF_ERROR(CheckKind(config));
  SimulationConfig& resolved = setup.config;
  RETURN_IF_ERROR(SettleHostOverhead(resolved.mutable_cost()));
  resolved.mutable_cost()->mutable_host_overhead();
  if (resolved.cost().kind_case() == CostModelConfig::KIND_NOT_SET) {
    resolved.mutable_cost()->mutable_roofline();
  }
  resolved.mutable_policy();
  resolved.mutable_limits();
  resolved.mutable_cache();
  resolved.mutable_slo();
  if (RunsKernels(resolved)) resolved.mutable_kernels();
  SpellOutDefaults(&resolved);
  MakePathsAbsolute(&resolved);
  resolved.mutable_cost()->set_block_size(resolved.cache().block_size());
  ASSIGN_OR_RETURN(setup.model, LookupModel(resolved.cost().model()));
  ASSIGN_OR_RETURN(setup.device, LookupDevice(resolved.cost().device()));
  if (resolved.limits().max_model_len() == 0) {
    resolved.mutable_limits()->set_max_model_len(
        setup.model.max_context_tokens());
  }
  RETURN_IF_ERROR(SettleTrace(resolved));
  RETURN_IF_ERROR(SettleKvMemory(setup));
  return setup;
}

Replica::Options ReplicaOptions(const SimulationConfig& config) {
  Replica::Options options;
  options.fast_forward = config.fast_forward();
  options.async_scheduling = config.async_scheduling();
  options.policy_name = config.policy().name();
  options.engine.limits = {
      .max_num_seqs = config.limits().max_num_seqs(),
      .max_num_batched_tokens = config.limits().max_num_batched_tokens(),
      .max_model_len = config.limits().max_model_len()};
  options.engine.cache.num_blocks = config.cache().num_blocks();
  options.engine.cache.block_size = config.cache().block_size();
  options.engine.cache.enable_prefix_caching =
      config.cache().enable_prefix_caching();
  options.engine.cache.num_host_blocks = config.cache().num_host_blocks();
  return options;
}

// Tokens that the kernels compute at once; longer iterations run in parts.
constexpr int64_t kMostKernelTokens = 16384;

absl::StatusOr<DecoderOptions> DecoderOptionsOf(
    const Setup& setup, const scheduler::Policy& policy) {
  const SimulationConfig& config = setup.config;
  const scheduler::Limits limits = ReplicaOptions(config).engine.limits;
  DecoderOptions options;
  ASSIGN_OR_RETURN(options.shape, DecoderShapeOf(setup.model));
  options.block_size = config.cache().block_size();
  options.num_blocks = config.cache().num_blocks();
  options.memory_utilization = config.cache().gpu_memory_utilization();
  options.max_num_seqs = limits.max_num_seqs;
  options.max_num_batched_tokens = static_cast<int32_t>(
      std::max<int64_t>(std::min(policy.TokenBudget(limits), kMostKernelTokens),
                        limits.max_num_seqs));
  options.max_model_len = limits.max_model_len;
  options.seed = config.kernels().weights_seed();
  options.device = config.kernels().device();
  options.batch_invariant = config.kernels().batch_invariant();
  options.cuda_graphs = config.kernels().cuda_graphs();
  // What is compared with a profile's predictions runs the profile's kernels.
  if (config.cost().has_profile()) {
    ASSIGN_OR_RETURN(ProfileTables tables,
                     LoadProfile(config.cost().profile()));
    options.linear_choices = std::move(tables.linear_choices);
  }
  return options;
}

// Settles the number of blocks too, where the kernels run.
absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(
    const scheduler::Policy& policy, std::unique_ptr<CostModel> cost,
    const HostOverhead& overhead, const RunOptions& run, Setup& setup) {
  if (!RunsKernels(setup.config)) {
    auto executor =
        std::make_unique<CostModelExecutor>(std::move(cost), overhead);
    const double jitter = setup.config.device_time_jitter();
    if (jitter == 0) return executor;
    return std::make_unique<JitteredExecutor>(std::move(executor), jitter,
                                              setup.config.seed());
  }
  ASSIGN_OR_RETURN(const DecoderOptions decoder,
                   DecoderOptionsOf(setup, policy));
  ASSIGN_OR_RETURN(std::unique_ptr<BatchRunner> runner, CreateRunner(decoder));
  setup.kv_memory = runner->Description();
  setup.config.mutable_cache()->set_num_blocks(
      static_cast<int32_t>(runner->num_blocks()));
  KernelExecutor::Options options;
  options.max_tokens = decoder.max_num_batched_tokens;
  options.predict = setup.config.executor() == SimulationConfig::BOTH;
  options.on_done = run.on_tokens;
  return std::make_unique<KernelExecutor>(std::move(runner), std::move(cost),
                                          overhead, std::move(options));
}

// What durations come from.
std::string TimeSource(const SimulationConfig& config, const CostModel& cost) {
  if (!RunsKernels(config)) return cost.Description();
  return absl::StrCat("durations measured on kernels; policies",
                      config.executor() == SimulationConfig::BOTH
                          ? " and predicted_ms ask: "
                          : " ask: ",
                      cost.Description());
}

int64_t PeakRssBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

Simulation::Progress ShareOf(const std::function<bool(double)>& progress,
                             int64_t total) {
  if (!progress) return nullptr;
  return [&progress, total](SimTime, int64_t arrived) {
    return progress(total > 0 ? static_cast<double>(arrived) /
                                    static_cast<double>(total)
                              : -1);
  };
}

// Nothing gets lost, neither requests nor blocks.
absl::Status CheckAccounts(const RunResult& result, const Replica& replica) {
  const int64_t ended = result.metrics.completed() + result.metrics.rejected();
  if (ended != result.submitted) {
    return absl::InternalError(absl::StrCat(
        result.submitted, " requests arrived, but ", ended, " ended"));
  }
  const int64_t free = replica.state().cache().free_blocks();
  if (free != result.kv_blocks_total) {
    return absl::InternalError(
        absl::StrCat("of ", result.kv_blocks_total, " KV blocks only ", free,
                     " are free when all requests have ended"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RunResult> RunSimulation(const SimulationConfig& config,
                                        const RunOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(Setup setup, Resolve(config));
  ASSIGN_OR_RETURN(std::unique_ptr<scheduler::Policy> policy,
                   scheduler::CreatePolicy(setup.config.policy().name(),
                                           setup.config.policy().options()));
  ASSIGN_OR_RETURN(std::unique_ptr<CostModel> cost,
                   CreateCostModel(setup.config.cost()));
  ASSIGN_OR_RETURN(const HostOverhead overhead,
                   CreateHostOverhead(setup.config.cost().host_overhead()));
  RunResult result;
  ASSIGN_OR_RETURN(const std::unique_ptr<Workload> workload,
                   MakeWorkload(setup.config, &result.notices));

  const CostModel& cost_view = *cost;
  ASSIGN_OR_RETURN(
      std::unique_ptr<Executor> executor,
      MakeExecutor(*policy, std::move(cost), overhead, options, setup));
  ASSIGN_OR_RETURN(
      std::unique_ptr<Replica> replica,
      Replica::Create(ReplicaOptions(setup.config), std::move(policy),
                      std::move(executor), &result.metrics, workload.get(),
                      options.sink));
  std::vector<std::unique_ptr<Replica>> replicas;
  replicas.push_back(std::move(replica));
  RoundRobinRouter router;
  Simulation simulation(workload.get(), &router, std::move(replicas));
  simulation.set_progress(ShareOf(options.progress, workload->TotalRequests()));
  RETURN_IF_ERROR(simulation.Run());

  const Replica& ran = *simulation.replicas()[0];
  result.submitted = simulation.arrived();
  result.kv_blocks_total = ran.state().cache().num_blocks();
  result.kv_blocks_peak = ran.state().cache().peak_used_blocks();
  RETURN_IF_ERROR(CheckAccounts(result, ran));
  result.utilization =
      ComputeUtilization(result.metrics, setup.model, setup.device,
                         setup.config.cost().tensor_parallel());
  result.cost = cost_view.stats();
  result.cost_description = TimeSource(setup.config, cost_view);
  result.kv_memory = std::move(setup.kv_memory);
  result.fingerprint = simulation.fingerprint();
  result.config = std::move(setup.config);
  result.wall_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  result.peak_rss_bytes = PeakRssBytes();
  return result;
}

}  // namespace interleave::sim
