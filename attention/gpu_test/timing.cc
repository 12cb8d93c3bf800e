// Times of the kernels, one line a row of the performance table:
//   path,label,microseconds,figure,unit
// Medians of CUDA events over inputs that rotate among buffers larger than the
// L2 cache. tools/gpu_check puts cuDNN's times beside them.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "attention/gpu_test/oracle.h"
#include "attention/gpu_test/test_case.h"
#include "attention/paged_attention.h"
#include "attention/params.h"
#include "cuda_runtime_api.h"

namespace interleave::attention {
namespace {

constexpr int kHeads = 32;
constexpr int kKvHeads = 8;
constexpr int kDim = 128;
constexpr int64_t kQRow = kHeads * kDim;
constexpr int64_t kKvRow = kKvHeads * kDim;
constexpr int64_t kRotateBytes = int64_t{200} << 20;

void CheckOk(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

// Median of the times of `run(i)`, which is given the repetition.
double MedianMicroseconds(const std::function<void(int)>& run) {
  cudaEvent_t begin;
  cudaEvent_t end;
  CheckCuda(cudaEventCreate(&begin), "event");
  CheckCuda(cudaEventCreate(&end), "event");
  for (int i = 0; i < 3; ++i) run(i);
  std::vector<double> times;
  double total = 0;
  for (int i = 0; i < 41 && total < 1e6; ++i) {
    // A launch ahead of the first event hides the launches' own time.
    CheckCuda(cudaEventRecord(begin, nullptr), "event");
    run(i);
    CheckCuda(cudaEventRecord(end, nullptr), "event");
    CheckCuda(cudaEventSynchronize(end), "event");
    float milliseconds = 0;
    CheckCuda(cudaEventElapsedTime(&milliseconds, begin, end), "event");
    times.push_back(milliseconds * 1000.0);
    total += times.back();
  }
  CheckCuda(cudaEventDestroy(begin), "event");
  CheckCuda(cudaEventDestroy(end), "event");
  std::nth_element(times.begin(), times.begin() + times.size() / 2,
                   times.end());
  return times[times.size() / 2];
}

void Print(const std::string& path, const std::string& label,
           double microseconds, double figure, const char* unit) {
  std::printf("%s,%s,%.2f,%.1f,%s\n", path.c_str(), label.c_str(), microseconds,
              figure, unit);
  std::fflush(stdout);
}

void* Random(DeviceArena& arena, int64_t elements, uint64_t seed) {
  void* data = arena.Take(elements * 2);
  CheckCuda(LaunchFillRandom(DataType::kBFloat16, data, elements, 1.0f, seed,
                             nullptr),
            "fill");
  return data;
}

// The last round of a call is captured into a graph, so that what is timed is
// the device's work and not the launching.
class GraphTimer {
 public:
  explicit GraphTimer(
      const std::vector<std::function<void(cudaStream_t)>>& calls) {
    CheckCuda(cudaStreamCreate(&stream_), "stream");
    for (const auto& call : calls) {
      CheckCuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed),
                "capture");
      call(stream_);
      cudaGraph_t graph;
      CheckCuda(cudaStreamEndCapture(stream_, &graph), "capture");
      cudaGraphExec_t exec;
      CheckCuda(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
      CheckCuda(cudaGraphDestroy(graph), "destroy");
      execs_.push_back(exec);
    }
  }
  ~GraphTimer() {
    for (cudaGraphExec_t exec : execs_) {
      CheckCuda(cudaGraphExecDestroy(exec), "destroy");
    }
    CheckCuda(cudaStreamDestroy(stream_), "destroy");
  }
  double Median() {
    return MedianMicroseconds([&](int i) {
      CheckCuda(cudaGraphLaunch(execs_[i % execs_.size()], nullptr), "replay");
    });
  }

 private:
  cudaStream_t stream_;
  std::vector<cudaGraphExec_t> execs_;
};

PlanConfig Config(int32_t batch, int64_t total_q, bool causal,
                  KernelChoice kernels) {
  PlanConfig config;
  config.shape = {DataType::kBFloat16, kHeads, kKvHeads, kDim};
  config.mask.causal = causal;
  config.max_batch = batch;
  config.max_total_q = total_q;
  config.kernels = kernels;
  return config;
}

// Queries times keys that the mask lets meet, times 4 * head_dim * heads.
double Flops(int64_t q, int64_t k, bool causal) {
  const double pairs = causal ? q * (k - q) + 0.5 * q * (q + 1.0) : 1.0 * q * k;
  return 4.0 * pairs * kDim * kHeads;
}

void TimePrefill(DeviceArena& arena, int64_t seqlen, bool causal,
                 KernelChoice kernels, const std::string& suffix) {
  arena.Reset();
  const int64_t total = 16384;
  const int32_t batch = static_cast<int32_t>(total / seqlen);
  std::vector<int32_t> cu(batch + 1);
  for (int b = 0; b <= batch; ++b) cu[b] = static_cast<int32_t>(b * seqlen);
  const int32_t* device_cu = arena.Upload(cu);
  absl::StatusOr<Plan> plan =
      Plan::Create(Config(batch, total, causal, kernels));
  CheckOk(plan.status());
  BatchMetadata metadata;
  metadata.batch = batch;
  metadata.total_q = total;
  metadata.cu_seqlens_q = device_cu;
  metadata.cu_seqlens_k = device_cu;
  metadata.max_seqlen_k = total;
  CheckOk(plan->Update(metadata, nullptr));
  std::vector<std::function<void(cudaStream_t)>> calls;
  for (int i = 0; i < 3; ++i) {
    VarlenParams params;
    params.q = {Random(arena, total * kQRow, 10 + i), kQRow, kDim};
    params.k = {Random(arena, total * kKvRow, 20 + i), kKvRow, kDim};
    params.v = {Random(arena, total * kKvRow, 30 + i), kKvRow, kDim};
    params.total_k = total;
    params.out = {arena.Take(total * kQRow * 2), kQRow, kDim};
    calls.push_back([&plan, params](cudaStream_t stream) {
      CheckOk(VarlenForward(*plan, params, stream));
    });
  }
  CheckCuda(cudaDeviceSynchronize(), "sync");
  const double time = GraphTimer(calls).Median();
  Print(absl::StrCat("prefill", causal ? "-causal" : "-full", suffix),
        absl::StrCat(seqlen), time,
        batch * Flops(seqlen, seqlen, causal) / time * 1e-6, "TFLOP/s");
}

// A paged batch: sequences of (queries, keys in all).
struct PagedBatch {
  std::vector<int32_t> q_lens;
  std::vector<int32_t> k_lens;
  int32_t page = 16;
  bool append = false;
  KernelChoice kernels = KernelChoice::kAuto;
};

struct PagedTime {
  double microseconds;
  double flops;
  double kv_bytes;
};

PagedTime TimePaged(DeviceArena& arena, const PagedBatch& spec) {
  arena.Reset();
  const int32_t batch = static_cast<int32_t>(spec.q_lens.size());
  std::vector<int32_t> cu_q = {0};
  std::vector<int32_t> cached;
  int32_t width = 1;
  int64_t blocks = 0;
  bool uniform = true;
  PagedTime result = {0, 0, 0};
  for (int32_t b = 0; b < batch; ++b) {
    cu_q.push_back(cu_q.back() + spec.q_lens[b]);
    cached.push_back(spec.k_lens[b] - (spec.append ? spec.q_lens[b] : 0));
    const int32_t need = (spec.k_lens[b] + spec.page - 1) / spec.page;
    width = std::max(width, need);
    blocks += need;
    uniform = uniform && spec.q_lens[b] == 1;
    result.flops += Flops(spec.q_lens[b], spec.k_lens[b], true);
    result.kv_bytes += 4.0 * spec.k_lens[b] * kKvRow;
  }
  const int64_t total_q = cu_q.back();
  absl::StatusOr<Plan> plan =
      Plan::Create(Config(batch, total_q, true, spec.kernels));
  CheckOk(plan.status());
  BatchMetadata metadata;
  metadata.batch = batch;
  metadata.total_q = total_q;
  if (!uniform) metadata.cu_seqlens_q = arena.Upload(cu_q);
  metadata.cache_seqlens = arena.Upload(cached);
  metadata.append = spec.append;
  metadata.max_seqlen_k = int64_t{width} * spec.page;
  CheckOk(plan->Update(metadata, nullptr));
  const int rotate = static_cast<int>(
      std::clamp(kRotateBytes / (result.kv_bytes + 1) + 1, 2.0, 16.0));
  std::vector<std::function<void(cudaStream_t)>> calls;
  for (int i = 0; i < rotate; ++i) {
    std::vector<int32_t> ids(blocks);
    std::iota(ids.begin(), ids.end(), 0);
    std::mt19937_64 random(i);
    std::shuffle(ids.begin(), ids.end(), random);
    std::vector<int32_t> table(int64_t{batch} * width, -1);
    int64_t next = 0;
    for (int32_t b = 0; b < batch; ++b) {
      for (int32_t p = 0; p * spec.page < spec.k_lens[b]; ++p) {
        table[int64_t{b} * width + p] = ids[next++];
      }
    }
    const int64_t block = spec.page * kKvRow;
    PagedParams params;
    params.q = {Random(arena, total_q * kQRow, 10 + i), kQRow, kDim};
    params.cache = {Random(arena, blocks * block, 40 + i),
                    Random(arena, blocks * block, 60 + i),
                    blocks,
                    spec.page,
                    block,
                    kKvRow,
                    kDim,
                    block,
                    kKvRow,
                    kDim};
    params.block_table = {arena.Upload(table), width, width};
    if (spec.append) {
      params.append.k = {Random(arena, total_q * kKvRow, 5), kKvRow, kDim};
      params.append.v = {Random(arena, total_q * kKvRow, 6), kKvRow, kDim};
      params.append.total_tokens = total_q;
    }
    params.out = {arena.Take(total_q * kQRow * 2), kQRow, kDim};
    calls.push_back([&plan, params](cudaStream_t stream) {
      CheckOk(MixedForward(*plan, params, stream));
    });
  }
  CheckCuda(cudaDeviceSynchronize(), "sync");
  result.microseconds = GraphTimer(calls).Median();
  return result;
}

void TimePagedPrefill(DeviceArena& arena, int32_t seqlen, int32_t page) {
  PagedBatch spec;
  spec.q_lens.assign(16384 / seqlen, seqlen);
  spec.k_lens = spec.q_lens;
  spec.page = page;
  const PagedTime time = TimePaged(arena, spec);
  Print(absl::StrCat("paged-prefill-page", page), absl::StrCat(seqlen),
        time.microseconds, time.flops / time.microseconds * 1e-6, "TFLOP/s");
}

void TimeDecode(DeviceArena& arena, int32_t batch, int32_t context, bool append,
                KernelChoice kernels, const std::string& suffix) {
  PagedBatch spec;
  spec.q_lens.assign(batch, 1);
  spec.k_lens.assign(batch, context);
  spec.append = append;
  spec.kernels = kernels;
  const PagedTime time = TimePaged(arena, spec);
  Print(absl::StrCat(append ? "decode-append" : "decode", suffix),
        absl::StrCat(batch, "x", context), time.microseconds,
        time.kv_bytes / time.microseconds * 1e-3, "GB/s");
}

void TimeRaggedDecode(DeviceArena& arena) {
  PagedBatch spec;
  std::mt19937_64 random(5);
  int64_t sum = 0;
  for (int i = 0; i < 64; ++i) {
    spec.q_lens.push_back(1);
    spec.k_lens.push_back(1 + static_cast<int32_t>(random() % 16384));
    sum += spec.k_lens.back();
  }
  const PagedTime time = TimePaged(arena, spec);
  Print("decode-ragged", absl::StrCat("64x", sum / 64), time.microseconds,
        time.kv_bytes / time.microseconds * 1e-3, "GB/s");
}

void TimeMixed(DeviceArena& arena, int32_t chunk) {
  PagedBatch prefill;
  prefill.q_lens = {chunk};
  prefill.k_lens = {8192 + chunk};
  const double alone = TimePaged(arena, prefill).microseconds;
  PagedBatch mixed = prefill;
  for (int i = 0; i < 64; ++i) {
    mixed.q_lens.push_back(1);
    mixed.k_lens.push_back(8192);
  }
  const PagedTime time = TimePaged(arena, mixed);
  Print("mixed", absl::StrCat(chunk, "+64x8192"), time.microseconds,
        time.flops / time.microseconds * 1e-6, "TFLOP/s");
  Print("mixed-chunk-alone", absl::StrCat(chunk), alone, alone, "us");
}

void TimeAppend(DeviceArena& arena, int32_t tokens) {
  arena.Reset();
  constexpr int kPage = 16;
  const int64_t blocks = tokens / kPage + 1;
  std::vector<int64_t> slots(tokens);
  std::iota(slots.begin(), slots.end(), 0);
  std::mt19937_64 random(1);
  std::shuffle(slots.begin(), slots.end(), random);
  std::vector<std::function<void(cudaStream_t)>> calls;
  const int64_t block = kPage * kKvRow;
  for (int i = 0; i < 4; ++i) {
    ScatterParams params;
    params.shape = {DataType::kBFloat16, kHeads, kKvHeads, kDim};
    params.k = {Random(arena, tokens * kKvRow, 1 + i), kKvRow, kDim};
    params.v = {Random(arena, tokens * kKvRow, 9 + i), kKvRow, kDim};
    params.total_tokens = tokens;
    params.slot_mapping = arena.Upload(slots);
    params.cache = {arena.Take(blocks * block * 2),
                    arena.Take(blocks * block * 2),
                    blocks,
                    kPage,
                    block,
                    kKvRow,
                    kDim,
                    block,
                    kKvRow,
                    kDim};
    calls.push_back([params](cudaStream_t stream) {
      CheckOk(CacheScatter(params, 0, stream));
    });
  }
  CheckCuda(cudaDeviceSynchronize(), "sync");
  const double time = GraphTimer(calls).Median();
  Print("scatter", absl::StrCat(tokens), time,
        8.0 * tokens * kKvRow / time * 1e-3, "GB/s");
}

void TimeGather(DeviceArena& arena, int32_t batch, int32_t context) {
  arena.Reset();
  constexpr int kPage = 16;
  const int32_t width = context / kPage;
  const int64_t blocks = int64_t{batch} * width;
  const int64_t total = int64_t{batch} * context;
  std::vector<int32_t> table(blocks);
  std::iota(table.begin(), table.end(), 0);
  std::mt19937_64 random(1);
  std::shuffle(table.begin(), table.end(), random);
  std::vector<int32_t> cu = {0};
  for (int b = 0; b < batch; ++b) cu.push_back(cu.back() + context);
  const int64_t block = kPage * kKvRow;
  GatherParams params;
  params.shape = {DataType::kBFloat16, kHeads, kKvHeads, kDim};
  params.cache = {Random(arena, blocks * block, 1),
                  Random(arena, blocks * block, 2),
                  blocks,
                  kPage,
                  block,
                  kKvRow,
                  kDim,
                  block,
                  kKvRow,
                  kDim};
  params.block_table = {arena.Upload(table), width, width};
  params.batch = batch;
  params.cu_seqlens_k = arena.Upload(cu);
  params.total_k = total;
  params.k = {arena.Take(total * kKvRow * 2), kKvRow, kDim};
  params.v = {arena.Take(total * kKvRow * 2), kKvRow, kDim};
  CheckCuda(cudaDeviceSynchronize(), "sync");
  const double time = GraphTimer({[&](cudaStream_t stream) {
                        CheckOk(CacheGather(params, 0, stream));
                      }}).Median();
  Print("gather", absl::StrCat(batch, "x", context), time,
        8.0 * total * kKvRow / time * 1e-3, "GB/s");
}

void TimePlan(DeviceArena& arena, int32_t batch) {
  arena.Reset();
  absl::StatusOr<Plan> plan =
      Plan::Create(Config(batch, batch, true, KernelChoice::kAuto));
  CheckOk(plan.status());
  BatchMetadata metadata;
  metadata.batch = batch;
  metadata.total_q = batch;
  metadata.cache_seqlens = arena.Upload(std::vector<int32_t>(batch, 4000));
  metadata.append = true;
  metadata.max_seqlen_k = 8192;
  const double time = GraphTimer({[&](cudaStream_t stream) {
                        CheckOk(plan->Update(metadata, stream));
                      }}).Median();
  Print("plan", absl::StrCat(batch), time, time, "us");
}

void TimeBandwidth(DeviceArena& arena) {
  arena.Reset();
  const int64_t bytes = int64_t{4} << 30;
  void* from = Random(arena, bytes / 2, 1);
  void* to = arena.Take(bytes);
  const double time = MedianMicroseconds([&](int) {
    CheckCuda(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, nullptr),
        "copy");
  });
  Print("device-copy", "4GiB", time, 2.0 * bytes / time * 1e-3, "GB/s");
}

int Main() {
  if (!HasGpu()) {
    std::printf("no GPU of compute capability 8.0 or later\n");
    return 0;
  }
  DeviceArena arena(int64_t{44} << 30);
  TimeBandwidth(arena);
  for (const bool causal : {true, false}) {
    for (const int seqlen : {512, 1024, 2048, 4096, 8192, 16384}) {
      TimePrefill(arena, seqlen, causal, KernelChoice::kAuto, "");
    }
  }
  TimePrefill(arena, 8192, true, KernelChoice::kPortable, "-portable");
  for (const int seqlen : {512, 2048, 8192, 16384}) {
    TimePagedPrefill(arena, seqlen, 16);
    TimePagedPrefill(arena, seqlen, 256);
  }
  for (const int context : {1024, 8192, 32768}) {
    for (const int batch : {1, 16, 64, 256}) {
      if (int64_t{batch} * context > 64 * 32768) continue;
      TimeDecode(arena, batch, context, false, KernelChoice::kAuto, "");
    }
  }
  TimeDecode(arena, 64, 8192, false, KernelChoice::kPortable, "-portable");
  TimeDecode(arena, 16, 8192, false, KernelChoice::kPortable, "-portable");
  TimeDecode(arena, 64, 8192, true, KernelChoice::kAuto, "");
  TimeRaggedDecode(arena);
  for (const int chunk : {512, 1024, 2048}) TimeMixed(arena, chunk);
  for (const int tokens : {64, 16384}) TimeAppend(arena, tokens);
  TimeGather(arena, 64, 8192);
  for (const int batch : {64, 1024}) TimePlan(arena, batch);
  return 0;
}

}  // namespace
}  // namespace interleave::attention

int main() { return interleave::attention::Main(); }
