// The random matrix: every feature in every mix, against the oracle, with fresh
// inputs in every run. Environment: ATTENTION_CASES (default 300),
// ATTENTION_SEED (default: the clock), ATTENTION_PORTABLE=1 (no other kernels),
// ATTENTION_SECONDS (stop early; the number of cases is printed).

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "attention/gpu_test/oracle.h"
#include "attention/gpu_test/test_case.h"
#include "attention/params.h"
#include "attention/reference.h"
#include "base/status_testing.h"
#include "cuda_runtime_api.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::attention {
namespace {

constexpr int64_t kArenaBytes = int64_t{6} << 30;

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  int64_t value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

uint64_t Seed() {
  return FromEnvironment(
      "ATTENTION_SEED",
      std::chrono::system_clock::now().time_since_epoch().count() % 1000000007);
}

TEST(MatrixTest, AgreesWithTheOracle) {
  if (!HasGpu()) GTEST_SKIP() << "no GPU of compute capability 8.0 or later";
  const int64_t cases = FromEnvironment("ATTENTION_CASES", 300);
  const uint64_t seed = Seed();
  std::printf("seed %llu, %lld cases\n", static_cast<unsigned long long>(seed),
              static_cast<long long>(cases));
  const bool portable = FromEnvironment("ATTENTION_PORTABLE", 0) != 0;
  std::mt19937_64 random(seed);
  DeviceArena arena(kArenaBytes);
  int64_t over_twice = 0;  // beyond 2x, by the unit's grace
  int failures = 0;
  double worst_ratio = 0;
  double worst_lse = 0;
  const int64_t seconds = FromEnvironment("ATTENTION_SECONDS", 1 << 30);
  const auto begin = std::chrono::steady_clock::now();
  int64_t done = 0;
  for (int64_t i = 0; i < cases && failures < 10; ++i, ++done) {
    if (std::chrono::steady_clock::now() - begin >
        std::chrono::seconds(seconds)) {
      break;
    }
    arena.Reset();
    CaseSpec spec = RandomSpec(random);
    if (portable) spec.kernels = KernelChoice::kPortable;
    TestCase test(spec, arena);
    const absl::Status status = test.Run(nullptr);
    if (!status.ok()) {
      ++failures;
      ADD_FAILURE() << "case " << i << ": " << status << "\n"
                    << spec.ToString();
      continue;
    }
    const TestCase::Verdict verdict = test.Check(nullptr);
    if (!verdict.problem.empty()) {
      ++failures;
      ADD_FAILURE() << "case " << i << ": " << verdict.problem << "\n"
                    << spec.ToString();
    }
    if (verdict.error > 2 * verdict.rounded_error) ++over_twice;
    if (verdict.rounded_error > verdict.unit) {
      worst_ratio =
          std::max(worst_ratio, verdict.error / verdict.rounded_error);
    }
    if (spec.amplitude <= 1 && spec.softmax_scale == 0 &&
        spec.rotary_dim == 0) {
      worst_lse = std::max(worst_lse, verdict.lse_error);
    }
  }
  std::printf("%lld cases done\n", static_cast<long long>(done));
  std::printf(
      "worst error %.3f of the 16-bit computation's where that is above a unit "
      "in the last place; %lld cases above 2 within a unit; worst lse error "
      "%.2e\n",
      worst_ratio, static_cast<long long>(over_twice), worst_lse);
}

// A mixed batch small enough for the CPU: the oracle itself against the
// reference, on the same bits. Both append for themselves: the kernels rotate
// keys in float, and now and then round one to the neighbouring 16-bit value.
TEST(OracleTest, AgreesWithTheReference) {
  if (!HasGpu()) GTEST_SKIP() << "no GPU of compute capability 8.0 or later";
  std::mt19937_64 random(Seed() + 1);
  DeviceArena arena(kArenaBytes);
  const auto read = [](const void* device, int64_t elements) {
    std::vector<uint16_t> host(std::max<int64_t>(elements, 1));
    CheckCuda(
        cudaMemcpy(host.data(), device, elements * 2, cudaMemcpyDeviceToHost),
        "reading");
    return host;
  };
  for (int round = 0; round < 40; ++round) {
    arena.Reset();
    CaseSpec spec = RandomSpec(random);
    spec.shape.num_kv_heads = 2;
    spec.shape.num_heads = 6;
    spec.path = Path::kMixed;
    spec.append = AppendMode::kQueries;
    spec.layout = CacheLayout::kSlotsThenHeads;
    spec.share_blocks = false;
    spec.row_padding = 0;
    spec.head_major_q = false;
    spec.extra_rows = 0;
    spec.sinks = false;
    spec.q_lens = {3, 0, 1, 9};
    spec.k_lens = {0, 5, -1, 70};
    spec.new_lens = {1, 1, 1, 1};
    TestCase test(spec, arena);
    // Before the kernels append: the reference appends to a copy of its own.
    const int64_t cache_elements =
        test.paged.cache.num_blocks * test.paged.cache.k_block_stride;
    std::vector<uint16_t> k = read(test.paged.cache.k, cache_elements);
    std::vector<uint16_t> v = read(test.paged.cache.v, cache_elements);
    ASSERT_THAT(test.Run(nullptr), IsOk());
    const TestCase::Verdict verdict = test.Check(nullptr);
    EXPECT_EQ(verdict.problem, "") << spec.ToString();

    PagedParams host = test.paged;
    const int64_t q_elements = 13 * 6 * spec.shape.head_dim;
    const std::vector<uint16_t> q = read(test.paged.q.data, q_elements);
    const std::vector<uint16_t> new_k =
        read(test.paged.append.k.data, 13 * 2 * spec.shape.head_dim);
    const std::vector<uint16_t> new_v =
        read(test.paged.append.v.data, 13 * 2 * spec.shape.head_dim);
    const int32_t width = test.paged.block_table.max_blocks_per_seq;
    std::vector<int32_t> table(4 * width);
    CheckCuda(cudaMemcpy(table.data(), test.paged.block_table.data,
                         table.size() * 4, cudaMemcpyDeviceToHost),
              "reading");
    std::vector<uint16_t> cosines, sines;
    if (spec.rotary_dim > 0) {
      const int64_t count =
          test.paged.append.rotary.max_position * spec.rotary_dim / 2;
      cosines = read(test.paged.append.rotary.cos, count);
      sines = read(test.paged.append.rotary.sin, count);
      host.append.rotary.cos = cosines.data();
      host.append.rotary.sin = sines.data();
    }
    std::vector<uint16_t> out(q_elements);
    host.q.data = q.data();
    host.cache.k = k.data();
    host.cache.v = v.data();
    host.block_table.data = table.data();
    host.append.k.data = new_k.data();
    host.append.v.data = new_v.data();
    host.out.data = out.data();
    host.lse = nullptr;
    const std::vector<int32_t> cu_q = {0, 3, 3, 4, 13};
    BatchMetadata batch = test.batch;
    batch.cu_seqlens_q = cu_q.data();
    batch.cache_seqlens = spec.k_lens.data();
    ASSERT_OK_AND_ASSIGN(const ReferenceOutput reference,
                         ReferencePagedForward(test.config, batch, host));
    // The oracle's exact result, again.
    OracleCall call;
    call.shape = spec.shape;
    call.mask = spec.mask;
    call.options = test.paged.options;
    call.lengths.batch = 4;
    call.lengths.total_q = 13;
    call.lengths.cu_seqlens_q = test.batch.cu_seqlens_q;
    call.lengths.cache_seqlens = test.batch.cache_seqlens;
    call.lengths.append = true;
    call.lengths.total_new = 13;
    call.lengths.max_seqlen_k = test.batch.max_seqlen_k;
    call.q = test.paged.q;
    call.cache = test.paged.cache;
    call.block_table = test.paged.block_table;
    call.query_rotary = test.paged.append.rotary;
    call.exact = static_cast<double*>(arena.Take(q_elements * 8));
    call.rounded = static_cast<double*>(arena.Take(q_elements * 8));
    call.exact_lse = static_cast<double*>(arena.Take(13 * 6 * 8));
    test.RestoreCache(nullptr);
    CheckCuda(LaunchNaiveAppend(call.shape, call.cache, call.block_table,
                                call.lengths, test.paged.append, nullptr),
              "appending");
    CheckCuda(LaunchOracle(call, nullptr), "oracle");
    std::vector<double> exact(q_elements);
    std::vector<double> lse(13 * 6);
    CheckCuda(cudaMemcpy(exact.data(), call.exact, exact.size() * 8,
                         cudaMemcpyDeviceToHost),
              "reading");
    CheckCuda(cudaMemcpy(lse.data(), call.exact_lse, lse.size() * 8,
                         cudaMemcpyDeviceToHost),
              "reading");
    for (size_t i = 0; i < exact.size(); ++i) {
      ASSERT_NEAR(exact[i], reference.out[i], 1e-9) << spec.ToString();
    }
    for (size_t i = 0; i < lse.size(); ++i) {
      if (lse[i] == reference.lse[i]) continue;  // infinities
      ASSERT_NEAR(lse[i], reference.lse[i], 1e-8) << spec.ToString();
    }
  }
}

}  // namespace
}  // namespace interleave::attention
