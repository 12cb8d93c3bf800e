// Whole runs on a GPU, of a tiny model: what a request generates does not
// depend on the policy. Batches do not matter to the last bit; but how a prompt
// is cut, and whether tokens are computed anew, decides which kernel computes a
// token, and rounding then turns round a choice between two logits that are as
// good as equal. What follows such a choice is another text.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/status_testing.h"
#include "cuda_runtime_api.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/config/simulation.pb.h"
#include "sim/kernel_executor/kernel_executor.h"
#include "sim/run.h"
#include "sim/run_result.h"
#include "sim/workload/workload.pb.h"

namespace interleave::sim {
namespace {

using ::testing::HasSubstr;

using Tokens = std::map<int64_t, std::vector<GeneratedToken>>;

// Logits have a deviation of about 1; bf16 leaves errors of about 0.01 in them.
constexpr float kRoundingGap = 0.05f;

std::string TinyModel() {
  const std::string path = ::testing::TempDir() + "/tiny.textproto";
  std::ofstream(path) << R"(
    name: "tiny"
    description: "a model for tests"
    num_layers: 2
    hidden_size: 256
    num_heads: 4
    num_kv_heads: 2
    head_dim: 64
    intermediate_size: 512
    vocab_size: 1024
    max_context_tokens: 512
  )";
  return path;
}

SimulationConfig TinyConfig(const std::string& policy) {
  SimulationConfig config;
  config.set_executor(SimulationConfig::BOTH);
  config.mutable_kernels()->set_batch_invariant(true);
  config.mutable_cost()->set_model(TinyModel());
  config.mutable_cost()->set_device("h200");
  config.mutable_policy()->set_name(policy);
  config.mutable_limits()->set_max_num_seqs(16);
  config.mutable_limits()->set_max_num_batched_tokens(128);
  // So few that requests are preempted.
  config.mutable_cache()->set_num_blocks(40);
  WorkloadConfig& workload = *config.mutable_workload();
  workload.mutable_arrival()->mutable_poisson()->set_rate_rps(2000);
  auto& prompt = *workload.mutable_generator()->mutable_prompt_tokens();
  prompt.mutable_uniform()->set_min(20);
  prompt.mutable_uniform()->set_max(150);
  auto& output = *workload.mutable_generator()->mutable_output_tokens();
  output.mutable_uniform()->set_min(5);
  output.mutable_uniform()->set_max(60);
  workload.set_num_requests(40);
  return config;
}

absl::StatusOr<Tokens> RunTiny(const SimulationConfig& config,
                               RunResult* result) {
  Tokens tokens;
  RunOptions options;
  options.on_tokens = [&](int64_t request,
                          absl::Span<const GeneratedToken> generated) {
    tokens[request].assign(generated.begin(), generated.end());
  };
  ASSIGN_OR_RETURN(*result, RunSimulation(config, options));
  return tokens;
}

// How many requests differ; that they first do so where rounding may decide.
int CountDifferent(const Tokens& actual, const Tokens& expected) {
  int different = 0;
  for (const auto& [request, tokens] : actual) {
    const std::vector<GeneratedToken>& others = expected.at(request);
    EXPECT_EQ(tokens.size(), others.size()) << request;
    for (size_t i = 0; i < std::min(tokens.size(), others.size()); ++i) {
      if (tokens[i].token == others[i].token) continue;
      EXPECT_LT(tokens[i].logit_gap, kRoundingGap) << request << ", " << i;
      EXPECT_LT(others[i].logit_gap, kRoundingGap) << request << ", " << i;
      ++different;
      break;
    }
  }
  return different;
}

TEST(PoliciesTest, EveryPolicyGeneratesTheSameTokens) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    RunResult result;
    EXPECT_THAT(RunTiny(TinyConfig("orca"), &result),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("there is no CUDA device")));
    GTEST_SKIP() << "there is no GPU";
  }
  Tokens first;
  int64_t preemptions = 0;
  for (const char* policy :
       {"unified_budget", "prefill_first", "stall_free", "orca"}) {
    SCOPED_TRACE(policy);
    RunResult result;
    ASSERT_OK_AND_ASSIGN(const Tokens tokens,
                         RunTiny(TinyConfig(policy), &result));
    EXPECT_EQ(result.metrics.completed(), 40);
    ASSERT_EQ(tokens.size(), 40u);
    preemptions += result.metrics.preemptions();
    if (first.empty()) first = tokens;
    EXPECT_LE(CountDifferent(tokens, first), 4);
  }
  EXPECT_GT(preemptions, 0);
}

}  // namespace
}  // namespace interleave::sim
