// EngineDriver: the smallest engine that a policy can be driven by, for tests.
// Every iteration takes the same time, and every plan is validated.
//
//   EngineDriver::Setup setup;
//   setup.limits.max_num_batched_tokens = 64;
//   ASSERT_OK_AND_ASSIGN(auto driver, EngineDriver::Create(setup, "orca", ""));
//   driver->Submit({.id = 0, .prompt_tokens = 60, .output_tokens = 5});
//   ASSERT_OK_AND_ASSIGN(const auto iterations, driver->RunToEnd());

#ifndef SCHEDULER_CONFORMANCE_ENGINE_DRIVER_H_
#define SCHEDULER_CONFORMANCE_ENGINE_DRIVER_H_

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/sim_time.h"
#include "scheduler/engine_state.h"
#include "scheduler/iteration_plan.h"
#include "scheduler/limits.h"
#include "scheduler/policy.h"
#include "scheduler/request_spec.h"

namespace interleave::scheduler {

class EngineDriver {
 public:
  struct Setup {
    Limits limits;
    int64_t num_blocks = 1000;
    int64_t block_size = 16;
    bool prefix_caching = false;
    int64_t num_host_blocks = 0;
    SimDuration iteration = SimDuration::Nanos(1'000'000);
    // Believes IterationPlan::repeat, as a fast-forwarding engine does, instead
    // of asking the policy again.
    bool trust_repeat = false;
    // After every iteration, which takes O(blocks).
    bool check_invariants = false;
  };

  // Tokens of one prompt computed in an iteration.
  struct Chunk {
    int64_t id = 0;
    int64_t tokens = 0;

    friend bool operator==(const Chunk&, const Chunk&) = default;
    friend std::ostream& operator<<(std::ostream& out, const Chunk& chunk) {
      return out << "request " << chunk.id << ": " << chunk.tokens;
    }
  };

  // What an iteration did, requests by id.
  struct Iteration {
    // In the order of the plan.
    std::vector<Chunk> chunks;
    // Ascending.
    std::vector<int64_t> decodes;
    // In the order of the plans that led to the iteration.
    std::vector<int64_t> preempted;
    std::vector<int64_t> rejected;
    // Ascending.
    std::vector<int64_t> finished;

    int64_t num_tokens() const;
    friend bool operator==(const Iteration&, const Iteration&) = default;
    friend std::ostream& operator<<(std::ostream& out,
                                    const Iteration& iteration);
  };

  static absl::StatusOr<std::unique_ptr<EngineDriver>> Create(
      const Setup& setup, absl::string_view policy, absl::string_view options);
  static absl::StatusOr<std::unique_ptr<EngineDriver>> Create(
      const Setup& setup, std::unique_ptr<Policy> policy);

  // Hands a request over; false when it can never be served.  Where
  // max_output_tokens is smaller, it is raised to output_tokens.
  bool Submit(RequestSpec spec);

  // Runs one iteration.  An empty one (no tokens) means that there is nothing
  // to do before the next arrival.  FailedPrecondition says what the policy did
  // wrong.
  absl::StatusOr<Iteration> Step();

  // Steps until all requests have ended.  DeadlineExceeded after
  // `max_iterations`; FailedPrecondition also when the policy stops short.
  absl::StatusOr<std::vector<Iteration>> RunToEnd(
      int64_t max_iterations = 1'000'000);

  const EngineState& state() const { return *state_; }
  Policy& policy() { return *policy_; }
  SimTime now() const { return now_; }

 private:
  EngineDriver(const Setup& setup, std::unique_ptr<EngineState> state,
               std::unique_ptr<Policy> policy);

  bool MayRepeat() const;
  // Asks the policy until there are tokens to compute or nothing to do.
  absl::Status PlanAndCommit(Iteration& iteration);
  absl::Status CheckPromise() const;
  void CarryOutRejections(Iteration& iteration);
  void Record(Iteration& iteration) const;
  void Complete(Iteration& iteration);
  void End(Request& request, Iteration& iteration);

  const Setup setup_;
  const std::unique_ptr<EngineState> state_;
  const std::unique_ptr<Policy> policy_;
  SimTime now_;
  IterationPlan plan_;
  CommittedBatch committed_;
  // Whether the last plan's promise still stands.
  bool promised_ = false;
};

}  // namespace interleave::scheduler

#endif  // SCHEDULER_CONFORMANCE_ENGINE_DRIVER_H_
