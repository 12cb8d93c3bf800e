#include "scheduler/conformance/engine_driver.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/sim_time.h"
#include "base/status_macros.h"
#include "scheduler/engine_state.h"
#include "scheduler/engine_view.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/policy.h"
#include "scheduler/registry.h"
#include "scheduler/request.h"
#include "scheduler/request_spec.h"

namespace interleave::scheduler {
namespace {

// Plans in a row that may preempt or reject without computing anything.
constexpr int kMaxIdlePlans = 1000;

void PrintIds(std::ostream& out, absl::string_view what,
              const std::vector<int64_t>& ids) {
  if (ids.empty()) return;
  out << " " << what << ":";
  for (const int64_t id : ids) out << " " << id;
}

// The engine owns its requests, and plans name them as const.
Request& Mutable(const Request& request) {
  return const_cast<Request&>(request);
}

}  // namespace

int64_t EngineDriver::Iteration::num_tokens() const {
  int64_t tokens = static_cast<int64_t>(decodes.size());
  for (const Chunk& chunk : chunks) tokens += chunk.tokens;
  return tokens;
}

std::ostream& operator<<(std::ostream& out,
                         const EngineDriver::Iteration& iteration) {
  out << "{";
  for (const EngineDriver::Chunk& chunk : iteration.chunks) {
    out << " " << chunk << ";";
  }
  PrintIds(out, "decodes", iteration.decodes);
  PrintIds(out, "preempted", iteration.preempted);
  PrintIds(out, "rejected", iteration.rejected);
  PrintIds(out, "finished", iteration.finished);
  return out << " }";
}

absl::StatusOr<std::unique_ptr<EngineDriver>> EngineDriver::Create(
    const Setup& setup, absl::string_view policy, absl::string_view options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Policy> made, CreatePolicy(policy, options));
  return Create(setup, std::move(made));
}

absl::StatusOr<std::unique_ptr<EngineDriver>> EngineDriver::Create(
    const Setup& setup, std::unique_ptr<Policy> policy) {
  EngineState::Options options;
  options.limits = setup.limits;
  options.cache.num_blocks = setup.num_blocks;
  options.cache.block_size = setup.block_size;
  options.cache.enable_prefix_caching = setup.prefix_caching;
  options.cache.num_host_blocks = setup.num_host_blocks;
  ASSIGN_OR_RETURN(std::unique_ptr<EngineState> state,
                   EngineState::Create(options));
  return std::unique_ptr<EngineDriver>(
      new EngineDriver(setup, std::move(state), std::move(policy)));
}

EngineDriver::EngineDriver(const Setup& setup,
                           std::unique_ptr<EngineState> state,
                           std::unique_ptr<Policy> policy)
    : setup_(setup), state_(std::move(state)), policy_(std::move(policy)) {}

bool EngineDriver::Submit(RequestSpec spec) {
  spec.arrival = now_;
  spec.max_output_tokens = std::max(spec.max_output_tokens, spec.output_tokens);
  if (state_->WhyNever(spec).has_value()) return false;
  const int64_t key = policy_->WaitingKey(spec);
  policy_->OnArrival(state_->Add(std::move(spec), key));
  if (plan_.repeat() != Repeat::kThroughArrivals) promised_ = false;
  return true;
}

absl::StatusOr<EngineDriver::Iteration> EngineDriver::Step() {
  Iteration iteration;
  if (MayRepeat() && setup_.trust_repeat) {
    state_->CommitDecodeAll();
    committed_.Clear();
    committed_.decode_all = true;
  } else {
    RETURN_IF_ERROR(PlanAndCommit(iteration));
  }
  Record(iteration);
  if (iteration.num_tokens() == 0) return iteration;
  now_ += setup_.iteration;
  Complete(iteration);
  if (setup_.check_invariants) RETURN_IF_ERROR(state_->CheckInvariants());
  return iteration;
}

bool EngineDriver::MayRepeat() const {
  return promised_ && state_->has_steady() &&
         state_->DecodeAllNeed() <= state_->cache().free_blocks();
}

absl::Status EngineDriver::PlanAndCommit(Iteration& iteration) {
  const bool promised = MayRepeat();
  for (int attempt = 0; attempt < kMaxIdlePlans; ++attempt) {
    plan_.Clear();
    policy_->Plan(EngineView(*state_, now_, /*predictor=*/nullptr), plan_);
    RETURN_IF_ERROR(CheckPromise());
    const bool decodes_alone = plan_.decode_all() && plan_.pieces().empty() &&
                               plan_.preemptions().empty() &&
                               plan_.rejections().empty();
    if (promised && !decodes_alone) {
      return absl::FailedPreconditionError(
          "the policy promised to plan decode_all alone again, and did not");
    }
    promised_ = plan_.repeat() != Repeat::kNo;
    RETURN_IF_ERROR(
        state_->Validate(plan_, policy_->TokenBudget(setup_.limits)));
    for (const IterationPlan::Preemption& preemption : plan_.preemptions()) {
      iteration.preempted.push_back(preemption.request->id());
    }
    CarryOutRejections(iteration);
    state_->Commit(plan_, committed_);
    for (const IterationPlan::Preemption& preemption : plan_.preemptions()) {
      policy_->OnPreempted(*preemption.request);
    }
    const bool computes = !committed_.pieces.empty() ||
                          (committed_.decode_all && state_->has_steady());
    const bool changes = !plan_.preemptions().empty() ||
                         !plan_.rejections().empty() || !plan_.pieces().empty();
    if (computes || !changes) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(kMaxIdlePlans, " plans in a row compute nothing"));
}

absl::Status EngineDriver::CheckPromise() const {
  if (plan_.repeat() == Repeat::kNo) return absl::OkStatus();
  if (plan_.decode_all() && plan_.pieces().empty() &&
      plan_.preemptions().empty() && plan_.rejections().empty()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      "the policy promises to repeat a plan that is not decode_all alone");
}

void EngineDriver::CarryOutRejections(Iteration& iteration) {
  for (const IterationPlan::Rejection& rejection : plan_.rejections()) {
    iteration.rejected.push_back(rejection.request->id());
    policy_->OnDone(*rejection.request);
    state_->Remove(Mutable(*rejection.request));
  }
}

void EngineDriver::Record(Iteration& iteration) const {
  for (const CommittedPiece& piece : committed_.pieces) {
    if (piece.decode) {
      iteration.decodes.push_back(piece.request->id());
    } else {
      iteration.chunks.push_back({piece.request->id(), piece.num_tokens});
    }
  }
  if (committed_.decode_all) {
    for (const Request& request : state_->running()) {
      if (request.steady()) iteration.decodes.push_back(request.id());
    }
  }
  std::sort(iteration.decodes.begin(), iteration.decodes.end());
}

void EngineDriver::Complete(Iteration& iteration) {
  if (committed_.decode_all && state_->has_steady()) {
    state_->ClearFresh();
    state_->AdvanceSteady();
  }
  for (const CommittedPiece& piece : committed_.pieces) {
    if (state_->AdvancePiece(piece)) End(*piece.request, iteration);
  }
  while (Request* request = state_->NextFinished()) End(*request, iteration);
  std::sort(iteration.finished.begin(), iteration.finished.end());
}

void EngineDriver::End(Request& request, Iteration& iteration) {
  promised_ = false;
  iteration.finished.push_back(request.id());
  policy_->OnDone(request);
  state_->Remove(request);
}

absl::StatusOr<std::vector<EngineDriver::Iteration>> EngineDriver::RunToEnd(
    int64_t max_iterations) {
  std::vector<Iteration> iterations;
  while (state_->num_requests() > 0) {
    if (static_cast<int64_t>(iterations.size()) == max_iterations) {
      return absl::DeadlineExceededError(
          absl::StrCat("requests are left after ", max_iterations,
                       " iterations: ", state_->waiting().size(), " wait, ",
                       state_->running().size(), " run"));
    }
    ASSIGN_OR_RETURN(Iteration iteration, Step());
    if (iteration.num_tokens() == 0 && iteration.rejected.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the policy runs nothing, though ", state_->waiting().size(),
          " requests wait, ", state_->running().size(), " run and ",
          state_->swapped().size(), " are swapped out"));
    }
    iterations.push_back(std::move(iteration));
  }
  return iterations;
}

}  // namespace interleave::scheduler
