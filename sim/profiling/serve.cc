#include "sim/profiling/serve.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/sim_time.h"
#include "base/status_macros.h"
#include "scheduler/registry.h"
#include "scheduler/request_spec.h"
#include "sim/cost/host_overhead.h"
#include "sim/forwarding_executor.h"
#include "sim/kernel_executor/kernel_executor.h"
#include "sim/kernel_executor/runner_proxy.h"
#include "sim/metrics/metrics.h"
#include "sim/replica.h"
#include "sim/simulation.h"
#include "sim/workload/create_workload.h"
#include "sim/workload/workload.h"
#include "sim/workload/workload.pb.h"

namespace interleave::sim {
namespace {

// Means and spreads of the logarithm, about those of the Azure conversation
// trace of 2023.
constexpr double kMeanPrompt = 1150;
constexpr double kPromptSigma = 1.0;
constexpr double kMeanOutput = 210;
constexpr double kOutputSigma = 0.85;
// Of a request's tokens, at most so much are the prompt's.
constexpr double kPromptShare = 0.75;
// A share of what the runner can do in full batches: hardly two requests meet.
constexpr double kLowLoad = 0.2;
// Of a policy's time; then what has arrived is worked off: decodes of many
// sequences alone, which policies that prefer prompts have only then.
constexpr double kArrivingShare = 0.65;

// A policy, with an option that says how many tokens with prompts it computes
// at once.
struct Way {
  const char* policy;
  const char* tokens_option;
  int32_t tokens;
  // The highest load: more and more requests wait, all of which a policy
  // without a budget would compute at once.
  double high_load;
};
constexpr Way kWays[] = {{"unified_budget", nullptr, 0, 2},
                         {"stall_free", "chunk_tokens", 512, 2},
                         {"split_fuse", "budget_tokens", 1024, 2},
                         {"prefill_first", nullptr, 0, 2},
                         {"orca", nullptr, 0, 1}};

class BorrowedModel final : public CostModel {
 public:
  explicit BorrowedModel(CostModel* model) : model_(*model) {}

  SimDuration IterationTime(const BatchShape& shape) override {
    return model_.IterationTime(shape);
  }
  bool NeedsKvTokensMax() const override { return model_.NeedsKvTokensMax(); }
  std::string Description() const override { return model_.Description(); }

 private:
  CostModel& model_;
};

// What has come of a policy.
struct Outcome {
  SimDuration served;
  bool time_is_up = false;
  bool enough = false;
};

// Runs batches on kernels, and tells of them. Ends the simulation when its time
// is up: the longest answers would keep it busy for as long again.
class ToldExecutor final : public ForwardingExecutor {
 public:
  ToldExecutor(std::unique_ptr<KernelExecutor> kernels, SimDuration time,
               const OnServed* on_served, Outcome* outcome)
      : ForwardingExecutor(std::move(kernels)),
        time_(time),
        on_served_(*on_served),
        outcome_(*outcome) {}

  absl::Status Run(const Batch& batch, IterationTiming& timing) override {
    RETURN_IF_ERROR(ForwardingExecutor::Run(batch, timing));
    outcome_.served += batch.idle + timing.device + timing.host;
    outcome_.time_is_up = outcome_.served >= time_;
    outcome_.enough = !on_served_(batch.shape, timing);
    return outcome_.time_is_up || outcome_.enough
               ? absl::CancelledError("no more is to be served")
               : absl::OkStatus();
  }

 private:
  const SimDuration time_;
  const OnServed& on_served_;
  Outcome& outcome_;
};

// Requests whose rate rises or falls on a line.
class SlopingWorkload final : public Workload {
 public:
  // `even`: on average one a second.
  SlopingWorkload(std::unique_ptr<Workload> even, double first_rps,
                  double last_rps, double seconds)
      : even_(std::move(even)),
        first_rps_(first_rps),
        slope_((last_rps - first_rps) / seconds) {}

  SimTime NextArrival() override { return WhenSloping(even_->NextArrival()); }
  scheduler::RequestSpec Next() override {
    scheduler::RequestSpec spec = even_->Next();
    spec.arrival = WhenSloping(spec.arrival);
    return spec;
  }

 private:
  // When as many are expected: first t + slope t^2 / 2.
  SimTime WhenSloping(SimTime even) const {
    if (even == SimTime::Infinity()) return even;
    const double expected = (even - SimTime()).seconds();
    // Of the rate by then; more than a falling one can have are at its end.
    const double square = first_rps_ * first_rps_ + 2 * slope_ * expected;
    return SimTime::FromSeconds(
        2 * expected / (first_rps_ + std::sqrt(std::max(0.0, square))));
  }

  const std::unique_ptr<Workload> even_;
  const double first_rps_;
  const double slope_;  // requests a second, a second
};

// Requests a second, if each took its share of batches of one kind.
double CapacityOf(CostModel& cost, const ServeOptions& options) {
  PrefillChunk chunk;
  chunk.query_tokens = options.limits.max_num_batched_tokens;
  BatchShape prompts;
  prompts.prefill = absl::MakeConstSpan(&chunk, 1);
  prompts.prefill_tokens = chunk.query_tokens;
  BatchShape decodes;
  const int64_t count = options.limits.max_num_seqs;
  const auto length = static_cast<int64_t>(kMeanPrompt + kMeanOutput / 2);
  for (int64_t i = 0; i < count; ++i) decodes.decode.Add(length);
  const double seconds =
      cost.IterationTime(prompts).seconds() * kMeanPrompt / chunk.query_tokens +
      cost.IterationTime(decodes).seconds() * kMeanOutput /
          static_cast<double>(count);
  return 1 / seconds;
}

void SetLength(double mean, double sigma, int32_t longest,
               LengthConfig* length) {
  LogNormalLengthConfig& law = *length->mutable_lognormal();
  law.set_mean(std::min(mean, 0.5 * longest));
  law.set_sigma(sigma);
  law.set_min(std::min(2, longest));
  law.set_max(longest);
}

SimDuration TimeOfOne(const ServeOptions& options) {
  return SimDuration::Seconds(options.seconds / std::size(kWays));
}

absl::StatusOr<std::unique_ptr<Workload>> MakeWorkload(
    const Way& way, bool rises, double capacity_rps,
    const ServeOptions& options, uint64_t seed) {
  const double seconds = kArrivingShare * TimeOfOne(options).seconds();
  double first_rps = kLowLoad * capacity_rps;
  double last_rps = way.high_load * capacity_rps;
  if (!rises) std::swap(first_rps, last_rps);
  WorkloadConfig config;
  const auto longest_prompt =
      static_cast<int32_t>(kPromptShare * options.limits.max_model_len);
  SetLength(kMeanPrompt, kPromptSigma, longest_prompt,
            config.mutable_generator()->mutable_prompt_tokens());
  SetLength(kMeanOutput, kOutputSigma,
            options.limits.max_model_len - longest_prompt,
            config.mutable_generator()->mutable_output_tokens());
  config.mutable_arrival()->mutable_poisson()->set_rate_rps(1);
  config.set_num_requests(
      1 + static_cast<int64_t>((first_rps + last_rps) / 2 * seconds));
  ASSIGN_OR_RETURN(std::unique_ptr<Workload> even,
                   CreateWorkload(config, seed, nullptr));
  return std::make_unique<SlopingWorkload>(std::move(even), first_rps, last_rps,
                                           seconds);
}

absl::StatusOr<std::unique_ptr<scheduler::Policy>> MakePolicy(
    const Way& way, const scheduler::Limits& limits) {
  std::string options;
  if (way.tokens_option != nullptr) {
    options = absl::StrCat(way.tokens_option, ": ",
                           std::min(way.tokens, limits.max_num_batched_tokens));
  }
  return scheduler::CreatePolicy(way.policy, options);
}

// One policy.
absl::StatusOr<Outcome> ServeOne(BatchRunner& runner, CostModel& cost,
                                 const ServeOptions& options, const Way& way,
                                 Workload& workload,
                                 const OnServed& on_served) {
  ASSIGN_OR_RETURN(std::unique_ptr<scheduler::Policy> policy,
                   MakePolicy(way, options.limits));
  KernelExecutor::Options kernels;
  kernels.max_tokens = options.max_tokens;
  Outcome outcome;
  auto executor = std::make_unique<ToldExecutor>(
      std::make_unique<KernelExecutor>(std::make_unique<RunnerProxy>(&runner),
                                       std::make_unique<BorrowedModel>(&cost),
                                       HostOverhead(), kernels),
      TimeOfOne(options), &on_served, &outcome);
  Replica::Options replica;
  replica.policy_name = way.policy;
  replica.engine.limits = options.limits;
  replica.engine.cache.num_blocks = static_cast<int32_t>(runner.num_blocks());
  replica.engine.cache.block_size = runner.block_size();
  Metrics metrics;
  std::vector<std::unique_ptr<Replica>> replicas(1);
  ASSIGN_OR_RETURN(replicas[0],
                   Replica::Create(replica, std::move(policy),
                                   std::move(executor), &metrics, &workload,
                                   /*sink=*/nullptr));
  RoundRobinRouter router;
  Simulation simulation(&workload, &router, std::move(replicas));
  const absl::Status status = simulation.Run();
  if (outcome.time_is_up || outcome.enough) return outcome;
  RETURN_IF_ERROR(status);
  if (outcome.served > SimDuration::Zero()) return outcome;
  return absl::InvalidArgumentError(
      absl::StrCat("none of the requests could be served: the KV cache has ",
                   runner.num_blocks(), " blocks"));
}

}  // namespace

absl::Status Serve(BatchRunner& runner, CostModel& cost,
                   const ServeOptions& options, const OnServed& on_served) {
  const double capacity_rps = CapacityOf(cost, options);
  Outcome outcome;
  for (uint64_t i = 0; !outcome.enough; ++i) {
    const Way& way = kWays[i % std::size(kWays)];
    ASSIGN_OR_RETURN(
        const std::unique_ptr<Workload> workload,
        MakeWorkload(way, i % 2 == 0, capacity_rps, options, options.seed + i));
    ASSIGN_OR_RETURN(
        outcome, ServeOne(runner, cost, options, way, *workload, on_served));
  }
  return absl::OkStatus();
}

}  // namespace interleave::sim
