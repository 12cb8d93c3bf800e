// What the random matrix does not reach: bit-exactness across batches and block
// placements, graph replay, sizes past 2^31 and 65,535, refused input, failed
// launches.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "attention/gpu_test/oracle.h"
#include "attention/gpu_test/test_case.h"
#include "attention/launch_check.h"
#include "attention/paged_attention.h"
#include "attention/params.h"
#include "base/status_testing.h"
#include "cuda_runtime_api.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::attention {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kGigabyte = int64_t{1} << 30;

#define SKIP_WITHOUT_GPU() \
  if (!HasGpu()) GTEST_SKIP() << "no GPU of compute capability 8.0 or later"

// 1 of `reduce` rounds where ATTENTION_REDUCE is set (for compute-sanitizer).
int Rounds(int full) {
  const char* text = std::getenv("ATTENTION_REDUCE");
  int reduce = 1;
  if (text == nullptr || !absl::SimpleAtoi(text, &reduce)) return full;
  return std::max(1, full / reduce);
}

CaseSpec BaseSpec() {
  CaseSpec spec;
  spec.shape = {DataType::kBFloat16, 8, 2, 128};
  spec.mask.causal = true;
  spec.path = Path::kMixed;
  spec.append = AppendMode::kQueries;
  spec.q_lens = {1, 1, 40, 1};
  spec.k_lens = {100, 17, 64, 3000};
  return spec;
}

void ExpectRight(TestCase& test, const CaseSpec& spec) {
  const absl::Status status = test.Run(nullptr);
  ASSERT_THAT(status, IsOk()) << spec.ToString();
  EXPECT_EQ(test.Check(nullptr).problem, "") << spec.ToString();
}

void ExpectRight(const CaseSpec& spec, DeviceArena& arena) {
  arena.Reset();
  TestCase test(spec, arena);
  ExpectRight(test, spec);
}

// The founding document's examples on the GPU.
TEST(GoldenTest, Example1) {
  SKIP_WITHOUT_GPU();
  DeviceArena arena(kGigabyte);
  CaseSpec spec = BaseSpec();
  spec.path = Path::kVarlen;
  spec.append = AppendMode::kNone;
  spec.q_lens = {10, 3, 1};
  spec.k_lens = {0, 1, 7};
  ExpectRight(spec, arena);
}

TEST(GoldenTest, Example2AppendsToTheRightSlots) {
  SKIP_WITHOUT_GPU();
  constexpr int kDim = 64;
  constexpr int kSlots = 7 * 32;
  constexpr uint16_t kNan = 0x7fff;
  DeviceArena arena(kGigabyte);
  const std::vector<int32_t> table = {2, -1, -1, -1, 0, 1, -1, -1, 3, 5, 6, -1};
  const std::vector<int32_t> lengths = {30, 32, 70};
  std::vector<uint16_t> cache(kSlots * kDim, kNan);
  for (int b = 0; b < 3; ++b) {
    for (int j = 0; j < lengths[b]; ++j) {
      const int slot = table[4 * b + j / 32] * 32 + j % 32;
      std::fill_n(cache.begin() + slot * kDim, kDim, 0x3f80);  // 1.0
    }
  }
  std::vector<uint16_t> fresh(3 * kDim);
  for (int i = 0; i < 3 * kDim; ++i) fresh[i] = 0x4000 + i;
  PlanConfig config;
  config.shape = {DataType::kBFloat16, 1, 1, kDim};
  config.mask.causal = true;
  config.max_batch = 3;
  config.max_total_q = 3;
  config.check_device_metadata = true;
  ASSERT_OK_AND_ASSIGN(Plan plan, Plan::Create(config));
  BatchMetadata batch;
  batch.batch = 3;
  batch.total_q = 3;
  batch.cache_seqlens = arena.Upload(lengths);
  batch.append = true;
  batch.max_seqlen_k = 128;
  PagedParams params;
  params.q = {arena.Upload(fresh), kDim, kDim};
  uint16_t* k = arena.Upload(cache);
  uint16_t* v = arena.Upload(cache);
  params.cache = {k, v, 7, 32, 32 * kDim, kDim, kDim, 32 * kDim, kDim, kDim};
  params.block_table = {arena.Upload(table), 4, 4};
  params.append.k = {arena.Upload(fresh), kDim, kDim};
  params.append.v = {arena.Upload(fresh), kDim, kDim};
  params.append.total_tokens = 3;
  params.out = {arena.Take(3 * kDim * 2), kDim, kDim};
  ASSERT_THAT(plan.Update(batch, nullptr), IsOk());
  ASSERT_THAT(DecodeForward(plan, params, nullptr), IsOk());
  std::vector<uint16_t> expected = cache;
  const int slots[] = {2 * 32 + 30, 1 * 32 + 0, 6 * 32 + 6};
  for (int b = 0; b < 3; ++b) {
    std::copy_n(fresh.begin() + b * kDim, kDim,
                expected.begin() + slots[b] * kDim);
  }
  std::vector<uint16_t> found(cache.size());
  for (const uint16_t* side : {k, v}) {
    CheckCuda(cudaMemcpy(found.data(), side, found.size() * 2,
                         cudaMemcpyDeviceToHost),
              "reading the cache");
    EXPECT_EQ(found, expected);
  }
}

// The lengths at which peers broke, one by one.
TEST(CornerTest, LengthsAroundPagesAndTiles) {
  SKIP_WITHOUT_GPU();
  DeviceArena arena(2 * kGigabyte);
  int count = 0;
  for (const int head_dim : {64, 80, 128, 256}) {
    for (const int page : {1, 16, 48, 128, 256, 480}) {
      for (const int q : {0, 1, 2, 8, 17, 127, 128, 129, 300}) {
        if (++count % Rounds(1000) != 0 && Rounds(1000) < 1000) continue;
        CaseSpec spec = BaseSpec();
        spec.shape.head_dim = head_dim;
        spec.page_size = page;
        spec.seed = head_dim * 1000003 + page * 1009 + q;
        spec.q_lens = {q, q, q, q, q, q};
        spec.k_lens = {0, 1, page - 1, page, page + 1, 130};
        spec.append = count % 3 == 0 ? AppendMode::kNone : AppendMode::kQueries;
        spec.poison = static_cast<Poison>(count % 4);
        ExpectRight(spec, arena);
      }
    }
  }
}

TEST(CornerTest, GroupsOfEverySize) {
  SKIP_WITHOUT_GPU();
  DeviceArena arena(2 * kGigabyte);
  for (const int group : {1, 3, 5, 6, 7, 8, 9, 16, 24, 64, 71}) {
    for (const int head_dim : {64, 128, 192}) {
      CaseSpec spec = BaseSpec();
      spec.shape.num_kv_heads = 2;
      spec.shape.num_heads = 2 * group;
      spec.shape.head_dim = head_dim;
      spec.seed = group;
      spec.k_lens = {100, 17, 64, 700};
      ExpectRight(spec, arena);
      spec.path = Path::kDecode;
      spec.q_lens = {1, 1, 1, 1};
      ExpectRight(spec, arena);
    }
  }
}

TEST(CornerTest, WindowsOfEverySize) {
  SKIP_WITHOUT_GPU();
  DeviceArena arena(2 * kGigabyte);
  for (const int window : {0, 1, 63, 64, 127, 128, 333, 1023, 5000}) {
    for (const int head_dim : {64, 96, 128, 256}) {
      for (const bool sinks : {false, true}) {
        CaseSpec spec = BaseSpec();
        spec.shape.head_dim = head_dim;
        spec.mask.window_left = window;
        spec.sinks = sinks;
        spec.seed = window;
        spec.k_lens = {100, 17, 64, 2000};
        ExpectRight(spec, arena);
      }
    }
  }
}

// Logits below -5e4 overflow a careless "minus infinity".
TEST(CornerTest, LargeNegativeLogits) {
  SKIP_WITHOUT_GPU();
  DeviceArena arena(kGigabyte);
  for (const DataType type : {DataType::kBFloat16, DataType::kFloat16}) {
    CaseSpec spec = BaseSpec();
    spec.shape.dtype = type;
    spec.amplitude = 100.0f;
    spec.softmax_scale = 1.0f;
    ExpectRight(spec, arena);
    spec.sinks = true;
    ExpectRight(spec, arena);
  }
}

TEST(CornerTest, EmptyBatches) {
  SKIP_WITHOUT_GPU();
  DeviceArena arena(kGigabyte);
  for (const Path path : {Path::kVarlen, Path::kDecode, Path::kMixed}) {
    CaseSpec spec = BaseSpec();
    spec.path = path;
    if (path == Path::kVarlen) spec.append = AppendMode::kNone;
    spec.q_lens = {};
    spec.k_lens = {};
    ExpectRight(spec, arena);
    spec.extra_rows = 5;
    ExpectRight(spec, arena);
  }
  // All sequences empty, or padding.
  CaseSpec spec = BaseSpec();
  spec.q_lens = {0, 0, 0};
  spec.k_lens = {0, -1, 9};
  ExpectRight(spec, arena);
  spec.path = Path::kDecode;
  spec.q_lens = {1, 1, 1};
  spec.k_lens = {-1, -1, -1};
  ExpectRight(spec, arena);
}

// ---- Bit-exactness --------------------------------------------------------

// Rows of sequence b of a run, by (sequence's own) identity.
std::vector<uint16_t> RowsOf(const std::vector<uint16_t>& out, int64_t begin,
                             int64_t count, int64_t row) {
  return std::vector<uint16_t>(out.begin() + begin * row,
                               out.begin() + (begin + count) * row);
}

// A pool of sequences whose contents depend on nothing but their index, run in
// random company.
class CompositionTest {
 public:
  CompositionTest(AttentionShape shape, KernelChoice kernels,
                  DeviceArena& arena)
      : shape_(shape), kernels_(kernels), arena_(arena) {}

  // Runs the given pool members as one batch; returns each one's rows.
  std::vector<std::vector<uint16_t>> Run(const std::vector<int>& members,
                                         uint64_t placement,
                                         bool batch_invariant) {
    arena_.Reset();
    const int page = 16;
    const int64_t row = int64_t{shape_.num_heads} * shape_.head_dim;
    const int64_t kv_row = int64_t{shape_.num_kv_heads} * shape_.head_dim;
    std::vector<int32_t> cu_q = {0};
    std::vector<int32_t> cached;
    int64_t blocks = 0;
    int32_t width = 1;
    for (const int m : members) {
      cu_q.push_back(cu_q.back() + QueryLength(m));
      cached.push_back(KeyLength(m) - QueryLength(m));
      const int32_t need = (KeyLength(m) + page - 1) / page;
      blocks += need;
      width = std::max(width, need);
    }
    std::vector<int32_t> ids(blocks + 7);
    std::iota(ids.begin(), ids.end(), 0);
    std::mt19937_64 random(placement);
    std::shuffle(ids.begin(), ids.end(), random);
    std::vector<int32_t> table(members.size() * width, -1);
    const int64_t cache_elements =
        static_cast<int64_t>(ids.size()) * page * kv_row;
    uint16_t* k = static_cast<uint16_t*>(arena_.Take(cache_elements * 2));
    uint16_t* v = static_cast<uint16_t*>(arena_.Take(cache_elements * 2));
    CheckCuda(LaunchFill16(k, cache_elements, 0x7fff, nullptr), "poison");
    CheckCuda(LaunchFill16(v, cache_elements, 0x7fff, nullptr), "poison");
    uint16_t* q =
        static_cast<uint16_t*>(arena_.Take(cu_q.back() * row * 2 + 16));
    uint16_t* out =
        static_cast<uint16_t*>(arena_.Take(cu_q.back() * row * 2 + 16));
    size_t next = 0;
    for (size_t i = 0; i < members.size(); ++i) {
      const int m = members[i];
      CheckCuda(LaunchFillRandom(shape_.dtype, q + cu_q[i] * row,
                                 QueryLength(m) * row, 1.0f, 1000 + m, nullptr),
                "fill");
      for (int p = 0; p * page < KeyLength(m); ++p) {
        const int32_t id = ids[next++];
        table[i * width + p] = id;
        const int64_t count = std::min(page, KeyLength(m) - p * page) * kv_row;
        CheckCuda(LaunchFillRandom(shape_.dtype, k + id * page * kv_row, count,
                                   1.0f, 7000 + 1000 * m + p, nullptr),
                  "fill");
        CheckCuda(LaunchFillRandom(shape_.dtype, v + id * page * kv_row, count,
                                   1.0f, 900000 + 1000 * m + p, nullptr),
                  "fill");
      }
    }
    PlanConfig config;
    config.shape = shape_;
    config.mask.causal = true;
    config.max_batch = static_cast<int32_t>(members.size());
    config.max_total_q = cu_q.back();
    config.batch_invariant = batch_invariant;
    config.kernels = kernels_;
    const absl::StatusOr<int64_t> bytes = Plan::WorkspaceBytes(config);
    EXPECT_THAT(bytes.status(), IsOk());
    void* workspace = arena_.Take(*bytes);
    absl::StatusOr<Plan> plan =
        Plan::Create(config, workspace, *bytes, nullptr);
    EXPECT_THAT(plan.status(), IsOk());
    BatchMetadata batch;
    batch.batch = config.max_batch;
    batch.total_q = cu_q.back();
    batch.cu_seqlens_q = arena_.Upload(cu_q);
    std::vector<int32_t> lengths;
    for (const int m : members) lengths.push_back(KeyLength(m));
    batch.cache_seqlens = arena_.Upload(lengths);
    batch.max_seqlen_k = int64_t{width} * page;
    PagedParams params;
    params.q = {q, row, shape_.head_dim};
    params.out = {out, row, shape_.head_dim};
    const int64_t block = page * kv_row;
    params.cache = {k,
                    v,
                    static_cast<int64_t>(ids.size()),
                    page,
                    block,
                    kv_row,
                    shape_.head_dim,
                    block,
                    kv_row,
                    shape_.head_dim};
    params.block_table = {arena_.Upload(table), width, width};
    EXPECT_THAT(plan->Update(batch, nullptr), IsOk());
    EXPECT_THAT(MixedForward(*plan, params, nullptr), IsOk());
    std::vector<uint16_t> host(cu_q.back() * row);
    CheckCuda(
        cudaMemcpy(host.data(), out, host.size() * 2, cudaMemcpyDeviceToHost),
        "reading out");
    std::vector<std::vector<uint16_t>> rows;
    for (size_t i = 0; i < members.size(); ++i) {
      rows.push_back(RowsOf(host, cu_q[i], cu_q[i + 1] - cu_q[i], row));
    }
    return rows;
  }

  static constexpr int kPool = 12;
  static int QueryLength(int m) {
    constexpr int kLengths[kPool] = {1, 1, 1, 1, 5, 1, 33, 1, 130, 1, 2, 64};
    return kLengths[m];
  }
  static int KeyLength(int m) {
    constexpr int kLengths[kPool] = {1,   100,  1024, 3000, 900, 5001,
                                     400, 2049, 130,  64,   777, 1500};
    return kLengths[m];
  }

 private:
  AttentionShape shape_;
  KernelChoice kernels_;
  DeviceArena& arena_;
};

TEST(BitExactTest, BatchInvariantModeOverRandomCompositions) {
  SKIP_WITHOUT_GPU();
  DeviceArena arena(4 * kGigabyte);
  const int rounds = Rounds(1000);
  std::mt19937_64 random(rounds);
  int round = 0;
  for (const auto& [head_dim, kernels] :
       std::vector<std::pair<int, KernelChoice>>{
           {128, KernelChoice::kAuto},
           {64, KernelChoice::kAuto},
           {96, KernelChoice::kAuto},
           {128, KernelChoice::kPortable}}) {
    CompositionTest test({DataType::kBFloat16, 8, 2, head_dim}, kernels, arena);
    std::vector<std::vector<uint16_t>> alone;
    for (int m = 0; m < CompositionTest::kPool; ++m) {
      alone.push_back(test.Run({m}, m, true)[0]);
    }
    for (int i = 0; i < (rounds + 3) / 4; ++i, ++round) {
      std::vector<int> members(1 + random() % 16);
      for (int& m : members) m = random() % CompositionTest::kPool;
      const auto rows = test.Run(members, random(), true);
      for (size_t j = 0; j < members.size(); ++j) {
        ASSERT_EQ(rows[j], alone[members[j]])
            << "sequence " << members[j] << " of composition " << round;
      }
    }
  }
  std::printf("%d compositions\n", round);
}

TEST(BitExactTest, PlacementOfBlocksChangesNothing) {
  SKIP_WITHOUT_GPU();
  DeviceArena arena(4 * kGigabyte);
  for (const auto& [head_dim, kernels] :
       std::vector<std::pair<int, KernelChoice>>{
           {128, KernelChoice::kAuto},
           {64, KernelChoice::kAuto},
           {256, KernelChoice::kAuto},
           {80, KernelChoice::kAuto},
           {128, KernelChoice::kPortable}}) {
    CompositionTest test({DataType::kFloat16, 8, 2, head_dim}, kernels, arena);
    const std::vector<int> members = {3, 6, 8, 0, 5, 11, 2};
    for (const bool batch_invariant : {false, true}) {
      const auto first = test.Run(members, 1, batch_invariant);
      for (int placement = 2; placement < 2 + Rounds(20); ++placement) {
        ASSERT_EQ(test.Run(members, placement, batch_invariant), first);
      }
    }
  }
}

// ---- Graphs ---------------------------------------------------------------

// A captured iteration (schedule, append, attention) replays for lengths that
// change on the device.
TEST(GraphTest, ReplaysWithOtherLengths) {
  SKIP_WITHOUT_GPU();
  DeviceArena arena(4 * kGigabyte);
  for (const int head_dim : {64, 80, 128, 256}) {
    for (const bool decode : {true, false}) {
      arena.Reset();
      CaseSpec spec = BaseSpec();
      spec.shape.head_dim = head_dim;
      spec.path = decode ? Path::kDecode : Path::kMixed;
      spec.q_lens = decode ? std::vector<int32_t>{1, 1, 1, 1}
                           : std::vector<int32_t>{1, 90, 1, 200};
      spec.k_lens = {3000, 100, 17, 400};
      TestCase captured(spec, arena);
      const absl::StatusOr<int64_t> bytes =
          Plan::WorkspaceBytes(captured.config);
      ASSERT_THAT(bytes.status(), IsOk());
      ASSERT_OK_AND_ASSIGN(
          Plan plan,
          Plan::Create(captured.config, arena.Take(*bytes), *bytes, nullptr));
      cudaStream_t stream;
      CheckCuda(cudaStreamCreate(&stream), "stream");
      CheckCuda(cudaDeviceSynchronize(), "sync");
      CheckCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed),
                "capture");
      const absl::Status status = captured.RunWithPlan(plan, stream);
      cudaGraph_t graph;
      CheckCuda(cudaStreamEndCapture(stream, &graph), "end of capture");
      ASSERT_THAT(status, IsOk());
      cudaGraphExec_t exec;
      CheckCuda(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
      // First as captured.
      captured.PoisonOutputs(stream);
      CheckCuda(cudaGraphLaunch(exec, stream), "replay");
      EXPECT_EQ(captured.Check(stream).problem, "") << spec.ToString();
      // Then lengths that shrink and grow in place, without the append of new
      // tokens past the table's width.
      int32_t* lengths = const_cast<int32_t*>(captured.batch.cache_seqlens);
      const std::vector<std::vector<int32_t>> others = {{1, 5, -1, 0},
                                                        {2999, 99, 16, 399},
                                                        {7, 100, 3, 400},
                                                        {3000, 0, 17, 1}};
      for (const auto& other : others) {
        CheckCuda(cudaMemcpy(lengths, other.data(), other.size() * 4,
                             cudaMemcpyHostToDevice),
                  "new lengths");
        captured.RestoreCache(stream);
        captured.PoisonOutputs(stream);
        CheckCuda(cudaGraphLaunch(exec, stream), "replay");
        EXPECT_EQ(captured.CheckAttention(stream).problem, "")
            << spec.ToString();
      }
      CheckCuda(cudaGraphExecDestroy(exec), "destroy");
      CheckCuda(cudaGraphDestroy(graph), "destroy");
      CheckCuda(cudaStreamDestroy(stream), "destroy");
    }
  }
}

// ---- Sizes ----------------------------------------------------------------

TEST(SizeTest, BatchesPastGridLimits) {
  SKIP_WITHOUT_GPU();
  DeviceArena arena(12 * kGigabyte);
  for (const int batch : {991, 992, 993, 65536, 80000}) {
    if (Rounds(1000) < 1000 && batch > 1000) continue;
    for (const bool decode : {true, false}) {
      CaseSpec spec = BaseSpec();
      spec.shape = {DataType::kBFloat16, 4, 2, 64};
      spec.path = decode ? Path::kDecode : Path::kMixed;
      spec.q_lens.assign(batch, 1);
      spec.k_lens.resize(batch);
      std::mt19937_64 random(batch);
      for (int32_t b = 0; b < batch; ++b) {
        spec.k_lens[b] = static_cast<int32_t>(random() % 40) - 1;
        if (!decode) spec.q_lens[b] = random() % 3;
      }
      ExpectRight(spec, arena);
    }
  }
}

// A batch with over 65,535 tiles of the prefill role.
TEST(SizeTest, TilesPast65535) {
  SKIP_WITHOUT_GPU();
  DeviceArena arena(8 * kGigabyte);
  CaseSpec spec = BaseSpec();
  spec.shape = {DataType::kBFloat16, 8, 8, 64};
  spec.q_lens.assign(Rounds(10000), 17);
  spec.k_lens.assign(spec.q_lens.size(), 2);
  ExpectRight(spec, arena);
}

// Blocks at the far end of caches of more than 2^31 elements, K and V each of
// more than 2^32 bytes.
TEST(SizeTest, CachesPast2To31ElementsAnd2To32Bytes) {
  SKIP_WITHOUT_GPU();
  constexpr int kPage = 256;
  for (const int head_dim : {128, 80, 64, 256}) {
    const int64_t kv_row = 8 * head_dim;
    const int64_t block = kPage * kv_row;
    const int64_t num_blocks = (int64_t{1} << 31) / block + 900;
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    CheckCuda(cudaMemGetInfo(&free_bytes, &total_bytes), "memory");
    const int64_t needed = 4 * num_blocks * block + kGigabyte;
    if (static_cast<int64_t>(free_bytes) < needed) {
      GTEST_SKIP() << "needs " << needed << " bytes of GPU memory";
    }
    DeviceArena arena(needed);
    uint16_t* k = static_cast<uint16_t*>(arena.Take(2 * num_blocks * block));
    uint16_t* v = static_cast<uint16_t*>(arena.Take(2 * num_blocks * block));
    // Everything poison, but for the blocks used.
    CheckCuda(LaunchFill16(k, num_blocks * block, 0x7fff, nullptr), "poison");
    CheckCuda(LaunchFill16(v, num_blocks * block, 0x7fff, nullptr), "poison");
    const std::vector<int32_t> lengths = {600, 300};
    const int32_t last = static_cast<int32_t>(num_blocks) - 1;
    const std::vector<int32_t> table = {last,     last - 7, last - 3,
                                        last - 1, last - 2, -1};
    const std::vector<int32_t> cu_q = {0, 1, 101};
    AttentionShape shape = {DataType::kBFloat16, 32, 8, head_dim};
    PagedParams params;
    params.cache = {k,      v,        num_blocks, kPage,  block,
                    kv_row, head_dim, block,      kv_row, head_dim};
    params.block_table = {arena.Upload(table), 3, 3};
    OracleCall call;
    call.shape = shape;
    call.mask.causal = true;
    call.lengths.batch = 2;
    call.lengths.total_q = 101;
    call.lengths.cu_seqlens_q = arena.Upload(cu_q);
    call.lengths.cache_seqlens = arena.Upload(lengths);
    call.lengths.max_seqlen_k = 3 * kPage;
    CheckCuda(LaunchFillCached(shape, params.cache, params.block_table,
                               call.lengths, 1.0f, 5, nullptr),
              "fill");
    const int64_t elements = 101 * 32 * head_dim;
    void* q = arena.Take(elements * 2);
    CheckCuda(LaunchFillRandom(shape.dtype, q, elements, 1.0f, 6, nullptr),
              "fill");
    params.q = {q, 32 * head_dim, head_dim};
    params.out = {arena.Take(elements * 2), 32 * head_dim, head_dim};
    CheckCuda(LaunchFill16(params.out.data, elements, kOutPoison, nullptr),
              "poison");
    call.q = params.q;
    call.cache = params.cache;
    call.block_table = params.block_table;
    call.exact = static_cast<double*>(arena.Take(elements * 8));
    call.rounded = static_cast<double*>(arena.Take(elements * 8));
    call.exact_lse = static_cast<double*>(arena.Take(101 * 32 * 8));
    PlanConfig config;
    config.shape = shape;
    config.mask.causal = true;
    config.max_batch = 2;
    config.max_total_q = 101;
    config.check_device_metadata = true;
    ASSERT_OK_AND_ASSIGN(Plan plan, Plan::Create(config));
    BatchMetadata batch;
    batch.batch = 2;
    batch.total_q = 101;
    batch.cu_seqlens_q = call.lengths.cu_seqlens_q;
    batch.cache_seqlens = call.lengths.cache_seqlens;
    batch.max_seqlen_k = 3 * kPage;
    ASSERT_THAT(plan.Update(batch, nullptr), IsOk());
    ASSERT_THAT(MixedForward(plan, params, nullptr), IsOk());
    Comparison* result =
        static_cast<Comparison*>(arena.Take(sizeof(Comparison)));
    CheckCuda(cudaMemset(result, 0, sizeof(*result)), "memset");
    CheckCuda(LaunchOracle(call, nullptr), "oracle");
    CheckCuda(LaunchCompare(call, params.out, nullptr, 0, result, nullptr),
              "compare");
    Comparison found;
    CheckCuda(cudaMemcpy(&found, result, sizeof(found), cudaMemcpyDeviceToHost),
              "reading");
    double error;
    double rounded;
    std::memcpy(&error, &found.max_error_bits, 8);
    std::memcpy(&rounded, &found.max_rounded_bits, 8);
    EXPECT_EQ(found.not_numbers, 0);
    EXPECT_LE(error, 2 * rounded);
    EXPECT_GT(rounded, 0);
  }
}

// ---- Scatter, gather, merge -----------------------------------------------

TEST(CacheUpdateTest, ScatterThenGatherGivesTheTokensBack) {
  SKIP_WITHOUT_GPU();
  DeviceArena arena(kGigabyte);
  constexpr int kPage = 48;
  constexpr int kHeads = 3;
  constexpr int kDim = 96;
  constexpr int kRow = kHeads * kDim;
  const std::vector<int32_t> cu_k = {0, 100, 100, 331};
  const std::vector<int32_t> table = {4,  1,  7, -1, -1, -1, -1, -1,
                                      -1, -1, 0, 3,  9,  8,  6};
  std::vector<int64_t> slots(cu_k.back());
  for (int b = 0; b < 3; ++b) {
    for (int j = 0; j < cu_k[b + 1] - cu_k[b]; ++j) {
      slots[cu_k[b] + j] =
          int64_t{table[5 * b + j / kPage]} * kPage + j % kPage;
    }
  }
  const int64_t elements = cu_k.back() * kRow;
  const int64_t cache_elements = 10 * kPage * kRow;
  ScatterParams scatter;
  scatter.shape = {DataType::kFloat16, 6, kHeads, kDim};
  void* k = arena.Take(elements * 2);
  void* v = arena.Take(elements * 2);
  CheckCuda(LaunchFillRandom(DataType::kFloat16, k, elements, 1, 1, nullptr),
            "fill");
  CheckCuda(LaunchFillRandom(DataType::kFloat16, v, elements, 1, 2, nullptr),
            "fill");
  scatter.k = {k, kRow, kDim};
  scatter.v = {v, kRow, kDim};
  scatter.total_tokens = cu_k.back();
  scatter.slot_mapping = arena.Upload(slots);
  void* cache_k = arena.Take(cache_elements * 2);
  void* cache_v = arena.Take(cache_elements * 2);
  CheckCuda(LaunchFill16(cache_k, cache_elements, 0x7fff, nullptr), "poison");
  CheckCuda(LaunchFill16(cache_v, cache_elements, 0x7fff, nullptr), "poison");
  scatter.cache = {cache_k, cache_v, 10,           kPage, kPage * kRow,
                   kRow,    kDim,    kPage * kRow, kRow,  kDim};
  ASSERT_THAT(CacheScatter(scatter, 0, nullptr), IsOk());
  GatherParams gather;
  gather.shape = scatter.shape;
  gather.cache = scatter.cache;
  gather.block_table = {arena.Upload(table), 5, 5};
  gather.batch = 3;
  gather.cu_seqlens_k = arena.Upload(cu_k);
  gather.total_k = cu_k.back();
  void* back_k = arena.Take(elements * 2);
  void* back_v = arena.Take(elements * 2);
  gather.k = {back_k, kRow, kDim};
  gather.v = {back_v, kRow, kDim};
  ASSERT_THAT(CacheGather(gather, 0, nullptr), IsOk());
  int32_t* differences = static_cast<int32_t*>(arena.Take(4));
  CheckCuda(cudaMemset(differences, 0, 4), "memset");
  CheckCuda(
      LaunchCountDifferences(k, back_k, elements, 0, differences, nullptr),
      "compare");
  CheckCuda(
      LaunchCountDifferences(v, back_v, elements, 0, differences, nullptr),
      "compare");
  int32_t found = -1;
  CheckCuda(cudaMemcpy(&found, differences, 4, cudaMemcpyDeviceToHost),
            "reading");
  EXPECT_EQ(found, 0);
}

// Attention over two halves of the keys, merged, against the whole.
TEST(MergeStatesTest, HalvesMakeTheWhole) {
  SKIP_WITHOUT_GPU();
  DeviceArena arena(kGigabyte);
  constexpr int kHeads = 4;
  constexpr int kDim = 128;
  constexpr int kQueries = 9;
  constexpr int kKeys = 500;
  const AttentionShape shape = {DataType::kFloat16, kHeads, kHeads, kDim};
  const int64_t q_elements = kQueries * kHeads * kDim;
  const int64_t k_elements = kKeys * kHeads * kDim;
  uint16_t* q = static_cast<uint16_t*>(arena.Take(q_elements * 2));
  uint16_t* k = static_cast<uint16_t*>(arena.Take(k_elements * 2));
  uint16_t* v = static_cast<uint16_t*>(arena.Take(k_elements * 2));
  CheckCuda(LaunchFillRandom(shape.dtype, q, q_elements, 1, 1, nullptr),
            "fill");
  CheckCuda(LaunchFillRandom(shape.dtype, k, k_elements, 1, 2, nullptr),
            "fill");
  CheckCuda(LaunchFillRandom(shape.dtype, v, k_elements, 1, 3, nullptr),
            "fill");
  const std::vector<int32_t> cu_q = {0, kQueries};
  const int32_t* device_cu_q = arena.Upload(cu_q);
  struct Part {
    void* out;
    float* lse;
  };
  const auto attend = [&](int begin, int end) {
    PlanConfig config;
    config.shape = shape;
    config.max_batch = 1;
    config.max_total_q = kQueries;
    absl::StatusOr<Plan> plan = Plan::Create(config);
    EXPECT_THAT(plan.status(), IsOk());
    const std::vector<int32_t> cu_k = {0, end - begin};
    BatchMetadata batch;
    batch.batch = 1;
    batch.total_q = kQueries;
    batch.cu_seqlens_q = device_cu_q;
    batch.cu_seqlens_k = arena.Upload(cu_k);
    batch.max_seqlen_k = end - begin;
    Part part = {arena.Take(q_elements * 2),
                 static_cast<float*>(arena.Take(kQueries * kHeads * 4))};
    VarlenParams params;
    params.q = {q, kHeads * kDim, kDim};
    params.k = {k + begin * kHeads * kDim, kHeads * kDim, kDim};
    params.v = {v + begin * kHeads * kDim, kHeads * kDim, kDim};
    params.total_k = end - begin;
    params.out = {part.out, kHeads * kDim, kDim};
    params.lse = part.lse;
    EXPECT_THAT(plan->Update(batch, nullptr), IsOk());
    EXPECT_THAT(VarlenForward(*plan, params, nullptr), IsOk());
    CheckCuda(cudaDeviceSynchronize(), "sync");
    return part;
  };
  const Part whole = attend(0, kKeys);
  for (const int cut : {0, 1, 200, kKeys}) {
    const Part a = attend(0, cut);
    const Part b = attend(cut, kKeys);
    MergeParams merge;
    merge.shape = shape;
    merge.total_q = kQueries;
    merge.a = {a.out, kHeads * kDim, kDim};
    merge.b = {b.out, kHeads * kDim, kDim};
    merge.lse_a = a.lse;
    merge.lse_b = b.lse;
    void* out = arena.Take(q_elements * 2);
    float* lse = static_cast<float*>(arena.Take(kQueries * kHeads * 4));
    merge.out = {out, kHeads * kDim, kDim};
    merge.lse = lse;
    ASSERT_THAT(MergeStates(merge, 0, nullptr), IsOk());
    std::vector<float> merged_lse(kQueries * kHeads);
    std::vector<float> whole_lse(kQueries * kHeads);
    CheckCuda(cudaMemcpy(merged_lse.data(), lse, merged_lse.size() * 4,
                         cudaMemcpyDeviceToHost),
              "reading");
    CheckCuda(cudaMemcpy(whole_lse.data(), whole.lse, whole_lse.size() * 4,
                         cudaMemcpyDeviceToHost),
              "reading");
    for (size_t i = 0; i < merged_lse.size(); ++i) {
      ASSERT_NEAR(merged_lse[i], whole_lse[i], 1e-4);
    }
    // fp16 outputs of size about 0.1: a few units in the last place.
    int32_t* differences = static_cast<int32_t*>(arena.Take(4));
    CheckCuda(cudaMemset(differences, 0, 4), "memset");
    CheckCuda(LaunchCountDifferences(out, whole.out, q_elements, 64,
                                     differences, nullptr),
              "compare");
    int32_t found = -1;
    CheckCuda(cudaMemcpy(&found, differences, 4, cudaMemcpyDeviceToHost),
              "reading");
    EXPECT_LE(found, q_elements / 50) << "cut at " << cut;
  }
}

// ---- Refusals and failures ------------------------------------------------

TEST(RefusalTest, HostMemoryIsNamed) {
  SKIP_WITHOUT_GPU();
  DeviceArena arena(kGigabyte);
  const CaseSpec spec = BaseSpec();
  TestCase test(spec, arena);
  ASSERT_THAT(test.Run(nullptr), IsOk());
  ASSERT_OK_AND_ASSIGN(Plan plan, Plan::Create(test.config));
  std::vector<int32_t> host(16);
  BatchMetadata batch = test.batch;
  batch.cache_seqlens = host.data();
  EXPECT_THAT(plan.Update(batch, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("cache_seqlens is not device memory")));
  ASSERT_THAT(plan.Update(test.batch, nullptr), IsOk());
  alignas(16) static char memory[64];
  PagedParams params = test.paged;
  params.q.data = memory;
  EXPECT_THAT(MixedForward(plan, params, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("q.data is not device memory")));
  EXPECT_THAT(
      DecodeForward(plan, test.paged, nullptr),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cu_seqlens_q")));
}

TEST(RefusalTest, PlansNameWhatTheyRefuse) {
  SKIP_WITHOUT_GPU();
  PlanConfig config;
  config.shape = {DataType::kBFloat16, 8, 2, 128};
  config.max_batch = 4;
  config.max_total_q = 64;
  ASSERT_OK_AND_ASSIGN(const int64_t bytes, Plan::WorkspaceBytes(config));
  DeviceArena arena(bytes + 4096);
  char* memory = static_cast<char*>(arena.Take(bytes + 256));
  const auto create = [&](void* workspace, int64_t size) {
    return Plan::Create(config, workspace, size, nullptr).status().ToString();
  };
  EXPECT_THAT(create(nullptr, bytes), HasSubstr("workspace is null"));
  EXPECT_THAT(create(memory + 16, bytes),
              HasSubstr("workspace is not aligned"));
  EXPECT_THAT(create(memory, bytes - 1), HasSubstr("workspace_bytes is"));
  PlanConfig far = config;
  far.device = 1000;
  EXPECT_THAT(Plan::Create(far).status().ToString(),
              HasSubstr("device is 1000"));
  ASSERT_OK_AND_ASSIGN(Plan plan, Plan::Create(config));
  EXPECT_THAT(MixedForward(plan, PagedParams(), nullptr),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("plan was not updated")));
}

TEST(RefusalTest, DeviceMetadataIsCheckedOnRequest) {
  SKIP_WITHOUT_GPU();
  DeviceArena arena(kGigabyte);
  const CaseSpec spec = BaseSpec();
  TestCase test(spec, arena);
  test.config.check_device_metadata = true;
  ASSERT_OK_AND_ASSIGN(Plan plan, Plan::Create(test.config));
  EXPECT_THAT(test.RunWithPlan(plan, nullptr), IsOk());
  const std::vector<int32_t> falling = {0, 5, 3, 42, 43};
  const std::vector<int32_t> far = {0, 5, 7, 42, 4300};
  const std::vector<int32_t> below = {3, -1, -7, 4};
  const std::vector<int32_t> above = {3, 4, 5, 1 << 20};
  BatchMetadata batch = test.batch;
  batch.cu_seqlens_q = arena.Upload(falling);
  EXPECT_THAT(std::string(plan.Update(batch, nullptr).message()),
              StartsWith("cu_seqlens_q[2] = 3"));
  batch.cu_seqlens_q = arena.Upload(far);
  EXPECT_THAT(std::string(plan.Update(batch, nullptr).message()),
              StartsWith("cu_seqlens_q[4] = 4300"));
  batch = test.batch;
  batch.cache_seqlens = arena.Upload(below);
  EXPECT_THAT(std::string(plan.Update(batch, nullptr).message()),
              StartsWith("cache_seqlens[2] = -7"));
  batch.cache_seqlens = arena.Upload(above);
  EXPECT_THAT(std::string(plan.Update(batch, nullptr).message()),
              StartsWith("cache_seqlens[3]"));
  // A needed block outside the cache.
  ASSERT_THAT(plan.Update(test.batch, nullptr), IsOk());
  std::vector<int32_t> table(4 * test.paged.block_table.max_blocks_per_seq, 0);
  table[test.paged.block_table.max_blocks_per_seq + 1] = 2147480000;
  PagedParams params = test.paged;
  params.block_table.data = arena.Upload(table);
  EXPECT_THAT(std::string(MixedForward(plan, params, nullptr).message()),
              StartsWith("block_table[1][1] = 2147480000"));
}

// Whatever launch fails, the call says so.
TEST(LaunchErrorTest, NoneIsSwallowed) {
  SKIP_WITHOUT_GPU();
  DeviceArena arena(kGigabyte);
  for (const Path path : {Path::kVarlen, Path::kDecode, Path::kMixed}) {
    arena.Reset();
    CaseSpec spec = BaseSpec();
    spec.path = path;
    if (path == Path::kDecode) spec.q_lens = {1, 1, 1, 1};
    if (path == Path::kVarlen) {
      spec.append = AppendMode::kNone;
    } else {
      spec.rotary_dim = 64;
    }
    TestCase test(spec, arena);
    ASSERT_THAT(test.Run(nullptr), IsOk());
    ASSERT_OK_AND_ASSIGN(Plan plan, Plan::Create(test.config));
    int count = 1;
    for (;; ++count) {
      const ScopedLaunchFault fault(count, cudaErrorLaunchFailure);
      const absl::Status status = test.RunWithPlan(plan, nullptr);
      if (!fault.fired()) {
        EXPECT_THAT(status, IsOk());
        break;
      }
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal,
                                   HasSubstr("cudaErrorLaunchFailure")))
          << "call " << count;
    }
    // Schedule (2), attention (1 or 2), combine, and what surrounds them.
    EXPECT_GT(count, 5);
    CheckCuda(cudaDeviceSynchronize(), "sync");
  }
}

// A real error: waiting for a check is not allowed while a stream is captured.
TEST(LaunchErrorTest, ErrorsOfCudaComeBack) {
  SKIP_WITHOUT_GPU();
  DeviceArena arena(kGigabyte);
  const CaseSpec spec = BaseSpec();
  TestCase test(spec, arena);
  test.config.check_device_metadata = true;
  ASSERT_OK_AND_ASSIGN(Plan plan, Plan::Create(test.config));
  cudaStream_t stream;
  CheckCuda(cudaStreamCreate(&stream), "stream");
  CheckCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed),
            "capture");
  EXPECT_THAT(plan.Update(test.batch, stream),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("cudaError")));
  cudaGraph_t graph = nullptr;
  (void)cudaStreamEndCapture(stream, &graph);
  (void)cudaGetLastError();
  CheckCuda(cudaStreamDestroy(stream), "destroy");
}

TEST(DeviceTest, RunsOnAnotherThanTheCurrentDevice) {
  SKIP_WITHOUT_GPU();
  int devices = 0;
  CheckCuda(cudaGetDeviceCount(&devices), "devices");
  if (devices < 2) GTEST_SKIP() << "one GPU only";
  CheckCuda(cudaSetDevice(1), "device 1");
  {
    DeviceArena arena(kGigabyte);
    const CaseSpec spec = BaseSpec();
    TestCase test(spec, arena);
    test.config.device = 1;
    ASSERT_OK_AND_ASSIGN(Plan plan, Plan::Create(test.config));
    cudaStream_t stream;
    CheckCuda(cudaStreamCreate(&stream), "stream");
    test.PoisonOutputs(stream);
    CheckCuda(cudaDeviceSynchronize(), "sync");
    CheckCuda(cudaSetDevice(0), "device 0");
    EXPECT_THAT(test.RunWithPlan(plan, stream), IsOk());
    CheckCuda(cudaSetDevice(1), "device 1");
    EXPECT_EQ(test.Check(stream).problem, "");
    CheckCuda(cudaStreamDestroy(stream), "destroy");
  }
  CheckCuda(cudaSetDevice(0), "device 0");
}

}  // namespace
}  // namespace interleave::attention
