#include "attention/gpu_test/test_case.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "attention/gpu_test/oracle.h"
#include "attention/paged_attention.h"
#include "attention/params.h"
#include "attention/tile_schedule.h"
#include "base/status_macros.h"
#include "cuda_runtime_api.h"

namespace interleave::attention {
namespace {

constexpr uint16_t kNan = 0x7fff;         // in bf16 and in fp16
constexpr uint16_t kInfinity16 = 0x7c00;  // fp16; in bf16 a large number

// Products that the oracle makes for a case, about.
int64_t OracleWork(const CaseSpec& spec) {
  int64_t work = 0;
  for (size_t b = 0; b < spec.q_lens.size(); ++b) {
    work += int64_t{spec.q_lens[b]} * (std::max(spec.k_lens[b], 0) + 64) *
            spec.shape.num_heads * spec.shape.head_dim * 5;
  }
  return work;
}

double FromBits(unsigned long long bits) {
  double value;
  static_assert(sizeof(value) == sizeof(bits));
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace

void CheckCuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::abort();
}

bool HasGpu() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    (void)cudaGetLastError();
    return false;
  }
  int major = 0;
  CheckCuda(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0),
      "cudaDeviceGetAttribute");
  return major >= 8;
}

DeviceArena::DeviceArena(int64_t bytes) : size_(bytes) {
  void* base = nullptr;
  CheckCuda(cudaMalloc(&base, bytes), "cudaMalloc");
  base_ = static_cast<char*>(base);
}

DeviceArena::~DeviceArena() { CheckCuda(cudaFree(base_), "cudaFree"); }

void* DeviceArena::Take(int64_t bytes) {
  void* piece = base_ + used_;
  used_ += (bytes + 255) / 256 * 256;
  if (used_ > size_) {
    std::fprintf(stderr, "device arena: %lld of %lld bytes asked for\n",
                 static_cast<long long>(used_), static_cast<long long>(size_));
    std::abort();
  }
  return piece;
}

void DeviceArena::CopyIn(void* to, const void* from, int64_t bytes) {
  if (bytes == 0) return;
  CheckCuda(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}

std::string CaseSpec::ToString() const {
  return absl::StrCat(
      "dtype=", shape.dtype == DataType::kBFloat16 ? "bf16" : "fp16",
      " heads=", shape.num_heads, "/", shape.num_kv_heads,
      " head_dim=", shape.head_dim, " causal=", mask.causal,
      " window=", mask.window_left, ",", mask.window_right,
      " scale=", softmax_scale, " softcap=", softcap, " sinks=", sinks,
      " lse=", lse, " path=", static_cast<int>(path),
      " append=", static_cast<int>(append), " page=", page_size,
      " layout=", static_cast<int>(layout),
      " poison=", static_cast<int>(poison), " rotary=", rotary_dim, "/",
      rotary_interleaved, " head_major=", head_major_q,
      " padding=", row_padding, " extra=", extra_rows, " share=", share_blocks,
      " amplitude=", amplitude, " invariant=", batch_invariant,
      " kernels=", static_cast<int>(kernels), " seed=", seed, " q=[",
      absl::StrJoin(q_lens, ","), "] k=[", absl::StrJoin(k_lens, ","),
      "] new=[", absl::StrJoin(new_lens, ","), "]");
}

CaseSpec RandomSpec(std::mt19937_64& random) {
  const auto pick = [&](const std::vector<int32_t>& values) {
    return values[random() % values.size()];
  };
  const auto chance = [&](int percent) {
    return static_cast<int>(random() % 100) < percent;
  };
  CaseSpec spec;
  spec.seed = random();
  spec.shape.dtype = chance(50) ? DataType::kBFloat16 : DataType::kFloat16;
  spec.shape.head_dim = pick({64, 80, 96, 128, 128, 192, 256});
  const int32_t group = pick({1, 2, 3, 4, 4, 5, 6, 7, 8, 9, 16, 24, 64, 71});
  spec.shape.num_kv_heads = group > 16 ? pick({1, 2}) : pick({1, 2, 3, 4, 8});
  spec.shape.num_heads = group * spec.shape.num_kv_heads;
  spec.mask.causal = chance(60);
  if (chance(35)) spec.mask.window_left = pick({0, 1, 15, 64, 127, 333, 1023});
  if (!spec.mask.causal && chance(30)) {
    spec.mask.window_right = pick({0, 1, 63, 128, 500});
  }
  if (chance(25)) spec.softmax_scale = chance(50) ? 1.0f : 0.03f;
  if (chance(20)) spec.softcap = chance(50) ? 30.0f : 5.0f;
  spec.sinks = chance(25);
  spec.lse = chance(80);
  spec.path = static_cast<Path>(random() % 3);
  if (spec.path == Path::kVarlen) {
    spec.append = AppendMode::kNone;
  } else if (chance(65)) {
    spec.append = AppendMode::kQueries;
  } else {
    spec.append = chance(50) ? AppendMode::kNone : AppendMode::kSeparate;
  }
  spec.page_size = pick({1, 2, 16, 16, 32, 48, 64, 128, 256, 480, 1024});
  spec.layout = static_cast<CacheLayout>(random() % 3);
  spec.poison = static_cast<Poison>(random() % 4);
  if (spec.append != AppendMode::kNone && chance(20)) {
    spec.rotary_dim = chance(50) ? spec.shape.head_dim : 32;
    spec.rotary_interleaved = chance(50);
  }
  spec.head_major_q = chance(20);
  spec.row_padding = chance(25) ? 64 : 0;
  spec.extra_rows = chance(30) ? pick({1, 7, 64}) : 0;
  spec.extra_blocks = pick({0, 1, 5});
  spec.share_blocks = chance(20);
  spec.amplitude = chance(15) ? 20.0f : 1.0f;
  spec.batch_invariant = chance(25);
  spec.kernels = chance(30) ? KernelChoice::kPortable : KernelChoice::kAuto;

  const int32_t page = spec.page_size;
  const int32_t sequences = chance(5) ? 40 : pick({0, 1, 1, 2, 3, 4, 6});
  const bool long_keys = chance(12);
  for (int32_t b = 0; b < sequences; ++b) {
    const int32_t q =
        spec.path == Path::kDecode
            ? 1
            : pick({0, 1, 1, 1, 2, 8, 17, 63, 65, 127, 128, 129, 300});
    int32_t k = pick({0, 1, page - 1, page, page + 1, 63, 64, 65, 127, 128, 129,
                      255, 257, 2 * page + 3, 200});
    if (long_keys) k = pick({1023, 1500, 2048, 4090, 8200, 5000});
    if (spec.path != Path::kVarlen && chance(8)) k = -1;
    spec.q_lens.push_back(q);
    spec.k_lens.push_back(k);
    spec.new_lens.push_back(pick({0, 1, 1, 2, 5, 33}));
  }
  while (OracleWork(spec) > 100'000'000) {
    // Halve the largest sequence.
    size_t most = 0;
    int64_t most_work = -1;
    for (size_t b = 0; b < spec.q_lens.size(); ++b) {
      const int64_t work = int64_t{spec.q_lens[b]} * (spec.k_lens[b] + 64);
      if (work > most_work) {
        most_work = work;
        most = b;
      }
    }
    if (spec.q_lens[most] > 1) {
      spec.q_lens[most] /= 2;
    } else if (spec.k_lens[most] > 1) {
      spec.k_lens[most] /= 2;
    } else {
      spec.q_lens.pop_back();
      spec.k_lens.pop_back();
      spec.new_lens.pop_back();
    }
  }
  return spec;
}

TestCase::TestCase(const CaseSpec& spec, DeviceArena& arena)
    : spec_(spec), arena_(arena) {
  config.shape = spec_.shape;
  config.mask = spec_.mask;
  config.batch_invariant = spec_.batch_invariant;
  config.rotate_queries = spec_.rotary_dim > 0;
  config.kernels = spec_.kernels;
  BuildLengths();
  BuildQueries();
  if (spec_.path == Path::kVarlen) {
    BuildContiguousKeys();
  } else {
    BuildCache();
    if (batch.append) BuildAppend();
  }
}

void TestCase::BuildLengths() {
  const int32_t sequences = static_cast<int32_t>(spec_.q_lens.size());
  std::vector<int32_t> cu_q = {0};
  std::vector<int32_t> cu_k = {0};
  std::vector<int32_t> cu_new = {0};
  for (int32_t b = 0; b < sequences; ++b) {
    cu_q.push_back(cu_q.back() + spec_.q_lens[b]);
    cu_k.push_back(cu_k.back() + std::max(spec_.k_lens[b], 0));
    cu_new.push_back(cu_new.back() + (spec_.append == AppendMode::kSeparate
                                          ? spec_.new_lens[b]
                                          : spec_.q_lens[b]));
  }
  total_q_ = cu_q.back() + spec_.extra_rows;
  batch.batch = sequences;
  batch.total_q = total_q_;
  if (spec_.path != Path::kDecode) batch.cu_seqlens_q = arena_.Upload(cu_q);
  if (spec_.path == Path::kVarlen) {
    batch.cu_seqlens_k = arena_.Upload(cu_k);
    batch.max_seqlen_k = cu_k.back() + 5;  // rows that belong to nobody
  } else {
    batch.cache_seqlens = arena_.Upload(spec_.k_lens);
  }
  batch.append = spec_.append != AppendMode::kNone;
  total_new_ = batch.append ? total_q_ : 0;
  if (spec_.append == AppendMode::kSeparate) {
    batch.cu_seqlens_new = arena_.Upload(cu_new);
    total_new_ = cu_new.back();
    batch.total_new = total_new_;
  }
  config.max_batch = sequences + 2;
  config.max_total_q = total_q_ + 3;
  config.max_total_new = std::max(total_new_, 1);
  lengths_.batch = sequences;
  lengths_.total_q = total_q_;
  lengths_.cu_seqlens_q = batch.cu_seqlens_q;
  lengths_.cu_seqlens_k = batch.cu_seqlens_k;
  lengths_.cache_seqlens = batch.cache_seqlens;
  lengths_.append = batch.append;
  lengths_.cu_seqlens_new = batch.cu_seqlens_new;
  lengths_.total_new = total_new_;
  lengths_.max_seqlen_k = batch.max_seqlen_k;
}

void TestCase::BuildQueries() {
  const int64_t heads = spec_.shape.num_heads;
  const int64_t head_dim = spec_.shape.head_dim;
  const int64_t row = head_dim + spec_.row_padding;
  out_elements_ = std::max<int64_t>(total_q_ * heads * row, 8);
  InputTensor q;
  if (spec_.head_major_q) {
    q.token_stride = row;
    q.head_stride = total_q_ * row;
  } else {
    q.token_stride = heads * row;
    q.head_stride = row;
  }
  void* data = arena_.Take(out_elements_ * 2);
  CheckCuda(LaunchFillRandom(spec_.shape.dtype, data, out_elements_,
                             spec_.amplitude, spec_.seed, nullptr),
            "filling q");
  if (!spec_.head_major_q && spec_.extra_rows > 0) {
    const int64_t from = (total_q_ - spec_.extra_rows) * q.token_stride;
    CheckCuda(LaunchFill16(static_cast<uint16_t*>(data) + from,
                           out_elements_ - from, kNan, nullptr),
              "poisoning q");
  }
  q.data = data;
  out_ = static_cast<uint16_t*>(arena_.Take(out_elements_ * 2));
  const int64_t lse_rows = total_q_ + 3;
  lse_ = static_cast<float*>(arena_.Take(lse_rows * heads * 4));
  const OutputTensor out = {out_, q.token_stride, q.head_stride};
  AttentionOptions options;
  options.softmax_scale = spec_.softmax_scale;
  options.softcap = spec_.softcap;
  if (spec_.sinks) {
    std::vector<float> sinks(heads);
    std::mt19937_64 random(spec_.seed);
    for (float& sink : sinks) {
      sink = static_cast<float>(random() % 1000) / 100.0f - 5.0f;
    }
    options.sinks = arena_.Upload(sinks);
  }
  varlen.q = paged.q = q;
  varlen.out = paged.out = out;
  varlen.options = paged.options = options;
  if (spec_.lse) {
    varlen.lse = paged.lse = lse_;
    varlen.lse_head_stride = paged.lse_head_stride = lse_rows;
  }
}

void TestCase::BuildContiguousKeys() {
  const int64_t heads = spec_.shape.num_kv_heads;
  const int64_t row = spec_.shape.head_dim + spec_.row_padding;
  const int64_t total_k = batch.max_seqlen_k;
  const int64_t used = total_k - 5;
  const int64_t elements = total_k * heads * row;
  void* data[2];
  for (int i = 0; i < 2; ++i) {
    data[i] = arena_.Take(elements * 2);
    CheckCuda(LaunchFillRandom(spec_.shape.dtype, data[i], elements,
                               i == 0 ? spec_.amplitude : 1.0f,
                               spec_.seed + 1 + i, nullptr),
              "filling keys");
    CheckCuda(LaunchFill16(static_cast<uint16_t*>(data[i]) + used * heads * row,
                           5 * heads * row, kNan, nullptr),
              "poisoning keys");
  }
  varlen.k = {data[0], heads * row, row};
  varlen.v = {data[1], heads * row, row};
  varlen.total_k = total_k;
}

std::vector<std::vector<int32_t>> TestCase::AssignBlocks(int64_t& num_blocks) {
  const int32_t page = spec_.page_size;
  std::vector<std::vector<int32_t>> rows;
  std::vector<int64_t> shared(spec_.k_lens.size(), 0);
  int64_t needed = 0;
  for (size_t b = 0; b < spec_.k_lens.size(); ++b) {
    const int64_t cached = spec_.k_lens[b];
    int64_t length = std::max<int64_t>(cached, 0);
    if (batch.append && cached >= 0) {
      length += spec_.append == AppendMode::kSeparate ? spec_.new_lens[b]
                                                      : spec_.q_lens[b];
    }
    if (cached < 0) length = 0;
    const int64_t blocks = (length + page - 1) / page;
    if (spec_.share_blocks && b > 0 && cached > 0 && spec_.k_lens[b - 1] > 0) {
      // Blocks that are full, and so not written, in both.
      shared[b] = std::min(cached, int64_t{spec_.k_lens[b - 1]}) / page;
    }
    rows.emplace_back(blocks);
    needed += blocks - shared[b];
  }
  num_blocks = std::max<int64_t>(needed + spec_.extra_blocks, 1);
  std::vector<int32_t> ids(num_blocks);
  std::iota(ids.begin(), ids.end(), 0);
  std::mt19937_64 random(spec_.seed * 31 + 7);
  std::shuffle(ids.begin(), ids.end(), random);
  size_t next = 0;
  for (size_t b = 0; b < rows.size(); ++b) {
    for (size_t i = 0; i < rows[b].size(); ++i) {
      rows[b][i] =
          i < static_cast<size_t>(shared[b]) ? rows[b - 1][i] : ids[next++];
    }
  }
  return rows;
}

void TestCase::BuildCache() {
  const int32_t page = spec_.page_size;
  int64_t num_blocks = 0;
  const std::vector<std::vector<int32_t>> rows = AssignBlocks(num_blocks);
  size_t width = 1;
  for (const auto& row : rows) width = std::max(width, row.size() + 2);
  // What a length does not need may be any number.
  std::mt19937_64 random(spec_.seed + 99);
  std::vector<int32_t> table(rows.size() * width);
  for (size_t b = 0; b < rows.size(); ++b) {
    for (size_t i = 0; i < width; ++i) {
      table[b * width + i] = i < rows[b].size()
                                 ? rows[b][i]
                                 : (random() % 2 == 0 ? -1 : 2147480000);
    }
  }
  if (table.empty()) table.push_back(-1);
  paged.block_table = {arena_.Upload(table), static_cast<int64_t>(width),
                       static_cast<int32_t>(width)};
  batch.max_seqlen_k = static_cast<int64_t>(width) * page;
  lengths_.max_seqlen_k = batch.max_seqlen_k;

  const int64_t heads = spec_.shape.num_kv_heads;
  const int64_t head_dim = spec_.shape.head_dim;
  const int64_t block = page * heads * head_dim;
  cache_elements_ = 2 * num_blocks * block;
  cache_ = static_cast<uint16_t*>(arena_.Take(cache_elements_ * 2));
  expected_cache_ = static_cast<uint16_t*>(arena_.Take(cache_elements_ * 2));
  pristine_cache_ = static_cast<uint16_t*>(arena_.Take(cache_elements_ * 2));
  KvCache& cache = paged.cache;
  cache.num_blocks = num_blocks;
  cache.block_size = page;
  cache.k = cache_;
  if (spec_.layout == CacheLayout::kFused) {
    cache.v = cache_ + block;
    cache.k_block_stride = cache.v_block_stride = 2 * block;
  } else {
    cache.v = cache_ + num_blocks * block;
    cache.k_block_stride = cache.v_block_stride = block;
  }
  if (spec_.layout == CacheLayout::kHeadsThenSlots) {
    cache.k_slot_stride = cache.v_slot_stride = head_dim;
    cache.k_head_stride = cache.v_head_stride = page * head_dim;
  } else {
    cache.k_slot_stride = cache.v_slot_stride = heads * head_dim;
    cache.k_head_stride = cache.v_head_stride = head_dim;
  }

  const uint16_t poison =
      spec_.poison == Poison::kInfinities
          ? (spec_.shape.dtype == DataType::kBFloat16 ? 0x7f80 : kInfinity16)
          : kNan;
  CheckCuda(LaunchFill16(cache_, cache_elements_, poison, nullptr),
            "poisoning the cache");
  if (spec_.layout != CacheLayout::kFused) {
    const bool spare_values = spec_.poison == Poison::kKeys;
    if (spare_values || spec_.poison == Poison::kValues) {
      CheckCuda(LaunchFillRandom(
                    spec_.shape.dtype,
                    cache_ + (spare_values ? cache_elements_ / 2 : 0),
                    cache_elements_ / 2, 100.0f, spec_.seed + 5, nullptr),
                "filling half the cache");
    }
  }
  CheckCuda(LaunchFillCached(spec_.shape, cache, paged.block_table, lengths_,
                             spec_.amplitude, spec_.seed + 3, nullptr),
            "filling the cache");
  CheckCuda(cudaMemcpyAsync(expected_cache_, cache_, cache_elements_ * 2,
                            cudaMemcpyDeviceToDevice, nullptr),
            "copying the cache");
  CheckCuda(cudaMemcpyAsync(pristine_cache_, cache_, cache_elements_ * 2,
                            cudaMemcpyDeviceToDevice, nullptr),
            "copying the cache");
}

void TestCase::BuildAppend() {
  const int64_t heads = spec_.shape.num_kv_heads;
  const int64_t row = spec_.shape.head_dim + spec_.row_padding;
  const int64_t elements = std::max<int64_t>(total_new_ * heads * row, 8);
  void* data[2];
  for (int i = 0; i < 2; ++i) {
    data[i] = arena_.Take(elements * 2);
    CheckCuda(LaunchFillRandom(spec_.shape.dtype, data[i], elements,
                               i == 0 ? spec_.amplitude : 1.0f,
                               spec_.seed + 11 + i, nullptr),
              "filling new keys");
  }
  AppendInput& append = paged.append;
  append.k = {data[0], heads * row, row};
  append.v = {data[1], heads * row, row};
  append.total_tokens = total_new_;
  if (spec_.rotary_dim > 0) {
    // A query may stand past the keys where fewer tokens are appended.
    const int64_t positions = batch.max_seqlen_k + total_q_;
    const int64_t count = positions * spec_.rotary_dim / 2;
    void* tables[2];
    for (int i = 0; i < 2; ++i) {
      tables[i] = arena_.Take(count * 2);
      CheckCuda(LaunchFillRandom(spec_.shape.dtype, tables[i], count, 0.7f,
                                 spec_.seed + 21 + i, nullptr),
                "filling rotary tables");
    }
    append.rotary = {tables[0], tables[1], spec_.rotary_dim, positions,
                     spec_.rotary_interleaved};
  }
  KvCache expected = paged.cache;
  expected.k = expected_cache_;
  expected.v =
      expected_cache_ + (static_cast<uint16_t*>(paged.cache.v) - cache_);
  CheckCuda(LaunchNaiveAppend(spec_.shape, expected, paged.block_table,
                              lengths_, append, nullptr),
            "appending by definition");
}

void TestCase::PoisonOutputs(cudaStream_t stream) {
  CheckCuda(LaunchFill16(out_, out_elements_, kOutPoison, stream),
            "poisoning out");
  CheckCuda(LaunchFill32(lse_, int64_t{total_q_ + 3} * spec_.shape.num_heads,
                         kLsePoison, stream),
            "poisoning lse");
}

void TestCase::RestoreCache(cudaStream_t stream) {
  if (cache_ == nullptr) return;
  CheckCuda(cudaMemcpyAsync(cache_, pristine_cache_, cache_elements_ * 2,
                            cudaMemcpyDeviceToDevice, stream),
            "restoring the cache");
}

absl::Status TestCase::RunWithPlan(Plan& plan, cudaStream_t stream) {
  RETURN_IF_ERROR(plan.Update(batch, stream));
  switch (spec_.path) {
    case Path::kVarlen:
      return VarlenForward(plan, varlen, stream);
    case Path::kDecode:
      return DecodeForward(plan, paged, stream);
    case Path::kMixed:
      return MixedForward(plan, paged, stream);
  }
  return absl::InternalError("no such path");
}

absl::Status TestCase::Run(cudaStream_t stream) {
  ASSIGN_OR_RETURN(const int64_t bytes, Plan::WorkspaceBytes(config));
  void* workspace = arena_.Take(bytes);
  CheckCuda(LaunchFill16(workspace, bytes / 2, kNan, stream),
            "poisoning the workspace");
  PoisonOutputs(stream);
  ASSIGN_OR_RETURN(Plan plan, Plan::Create(config, workspace, bytes, stream));
  return RunWithPlan(plan, stream);
}

OracleCall TestCase::Oracle() const {
  OracleCall call;
  call.shape = spec_.shape;
  call.mask = spec_.mask;
  call.options = paged.options;
  call.lengths = lengths_;
  call.q = paged.q;
  if (spec_.path == Path::kVarlen) {
    call.k = varlen.k;
    call.v = varlen.v;
  } else {
    call.cache = paged.cache;
    call.block_table = paged.block_table;
    call.query_rotary = paged.append.rotary;
  }
  return call;
}

TestCase::Verdict TestCase::Check(cudaStream_t stream) {
  return Compare(true, stream);
}

TestCase::Verdict TestCase::CheckAttention(cudaStream_t stream) {
  return Compare(false, stream);
}

TestCase::Verdict TestCase::Compare(bool with_cache, cudaStream_t stream) {
  OracleCall call = Oracle();
  const int64_t rows = int64_t{total_q_} * spec_.shape.num_heads;
  const int64_t elements = rows * spec_.shape.head_dim;
  call.exact = static_cast<double*>(arena_.Take(elements * 8));
  call.rounded = static_cast<double*>(arena_.Take(elements * 8));
  call.exact_lse = static_cast<double*>(arena_.Take(rows * 8));
  struct Results {
    Comparison comparison;
    int32_t cache_differences;
  };
  Results* device = static_cast<Results*>(arena_.Take(sizeof(Results)));
  CheckCuda(cudaMemsetAsync(device, 0, sizeof(Results), stream), "memset");
  CheckCuda(LaunchOracle(call, stream), "oracle");
  CheckCuda(LaunchCompare(call, paged.out, paged.lse, total_q_ + 3,
                          &device->comparison, stream),
            "compare");
  if (with_cache && cache_ != nullptr) {
    CheckCuda(LaunchCountDifferences(cache_, expected_cache_, cache_elements_,
                                     spec_.rotary_dim > 0 ? 1 : 0,
                                     &device->cache_differences, stream),
              "comparing caches");
  }
  Results results;
  CheckCuda(cudaMemcpyAsync(&results, device, sizeof(results),
                            cudaMemcpyDeviceToHost, stream),
            "reading results");
  CheckCuda(cudaStreamSynchronize(stream), "running the case");

  const Comparison& c = results.comparison;
  Verdict verdict;
  verdict.error = FromBits(c.max_error_bits);
  verdict.rounded_error = FromBits(c.max_rounded_bits);
  const double largest = FromBits(c.max_exact_bits);
  verdict.lse_error = FromBits(c.max_lse_error_bits);
  // A unit in the last place of the largest output, for cases in which the
  // 16-bit computation is right by luck (a single key, a weight of one).
  const int mantissa = spec_.shape.dtype == DataType::kBFloat16 ? 7 : 10;
  verdict.unit =
      largest > 0 ? std::ldexp(1.0, std::ilogb(largest) - mantissa) : 0.0;
  if (c.not_numbers > 0) {
    absl::StrAppend(&verdict.problem, c.not_numbers, " outputs are NaN; ");
  }
  if (c.touched > 0) {
    absl::StrAppend(&verdict.problem, c.touched,
                    " elements that no sequence owns were written; ");
  }
  if (c.lse_mismatches > 0) {
    absl::StrAppend(&verdict.problem, c.lse_mismatches,
                    " lse infinities are wrong; ");
  }
  // The unit is one of the 16-bit computation's result, which is itself off.
  if (!(verdict.error <= std::max(2 * verdict.rounded_error,
                                  verdict.unit + verdict.rounded_error))) {
    absl::StrAppend(&verdict.problem, "error ", verdict.error, " passes twice ",
                    verdict.rounded_error, "; ");
  }
  // float32 loses a share of the terms of a logit; a rotated element may also
  // round to the other side in double.
  const double head_dim = spec_.shape.head_dim;
  const double scale = spec_.softmax_scale != 0 ? spec_.softmax_scale
                                                : 1.0 / std::sqrt(head_dim);
  const double terms = spec_.amplitude * spec_.amplitude * head_dim * scale;
  const double lse_bound =
      std::max(3e-5, (spec_.rotary_dim > 0 ? 4e-5 : 4e-6) * terms);
  if (!(verdict.lse_error <= lse_bound)) {
    absl::StrAppend(&verdict.problem, "lse error ", verdict.lse_error, "; ");
  }
  if (results.cache_differences > 0) {
    absl::StrAppend(&verdict.problem, results.cache_differences,
                    " cache elements differ; ");
  }
  return verdict;
}

std::vector<uint16_t> TestCase::ReadOut() const {
  std::vector<uint16_t> raw(out_elements_);
  CheckCuda(
      cudaMemcpy(raw.data(), out_, out_elements_ * 2, cudaMemcpyDeviceToHost),
      "reading out");
  std::vector<uint16_t> dense;
  dense.reserve(int64_t{total_q_} * spec_.shape.num_heads *
                spec_.shape.head_dim);
  for (int64_t t = 0; t < total_q_; ++t) {
    for (int64_t h = 0; h < spec_.shape.num_heads; ++h) {
      const uint16_t* row =
          raw.data() + t * paged.out.token_stride + h * paged.out.head_stride;
      dense.insert(dense.end(), row, row + spec_.shape.head_dim);
    }
  }
  return dense;
}

}  // namespace interleave::attention
