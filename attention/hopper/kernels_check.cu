// Checks the Hopper kernels against a plain one on fresh random inputs, then
// times them, without the plan or the public API: work items are made here on
// the host. Prints one line a case; exits 1 when a case is wrong.
//
//   kernels_check [check|prefill|decode]...

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "attention/hopper/hopper.h"
#include "attention/kernel_params.h"
#include "cuda_runtime_api.h"

namespace interleave::attention {
namespace {

#define CHECK_CUDA(call)                                        \
  do {                                                          \
    const cudaError_t error = (call);                           \
    if (error != cudaSuccess) {                                 \
      std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
                  cudaGetErrorString(error));                   \
      std::exit(2);                                             \
    }                                                           \
  } while (0)

struct Case {
  std::vector<int> q_lens;
  std::vector<int> k_lens;
  int heads = 32;
  int kv_heads = 8;
  int head_dim = 128;
  DataType dtype = DataType::kBFloat16;
  int page = 16;  // 0: contiguous
  int left = -1;
  int right = 0;
  float softcap = 0.0f;
  bool sinks = false;
  int split = INT32_MAX;  // keys, rounded up to the role's key tile
  bool split_decodes_only = false;
  float scale = 0.0f;
};

template <typename T>
struct Buffer {
  T* data = nullptr;
  size_t count = 0;
  explicit Buffer(size_t n) : count(n) {
    CHECK_CUDA(cudaMalloc(&data, std::max<size_t>(n, 1) * sizeof(T)));
  }
  explicit Buffer(const std::vector<T>& host) : Buffer(host.size()) {
    CHECK_CUDA(cudaMemcpy(data, host.data(), host.size() * sizeof(T),
                          cudaMemcpyHostToDevice));
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() { cudaFree(data); }
};

__device__ uint32_t Hash(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  x ^= x >> 33;
  return static_cast<uint32_t>(x);
}

// About normal, variance 1.
template <typename T>
__global__ void FillRandom(T* data, size_t count, uint64_t seed) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
       i += size_t{gridDim.x} * blockDim.x) {
    float x = 0.0f;
    const uint32_t a = Hash(seed + 2 * i), b = Hash(seed + 2 * i + 1);
    for (int s = 0; s < 32; s += 16) {
      x += ((a >> s) & 0xFFFF) * (1.0f / 65536.0f) - 0.5f;
      x += ((b >> s) & 0xFFFF) * (1.0f / 65536.0f) - 0.5f;
    }
    data[i] = static_cast<T>(x * 1.7320508f);
  }
}

template <typename T>
__global__ void FillNan(T* data, size_t count) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
       i += size_t{gridDim.x} * blockDim.x) {
    data[i] = static_cast<T>(__int_as_float(0x7FC00000));
  }
}

// Writes NaN to the slots of pages past each sequence's length.
template <typename T>
__global__ void PoisonTails(KernelParams p) {
  const int b = blockIdx.x;
  const int len = p.schedule.sequences[b].k_len;
  const int pages = (len + p.page_size - 1) / p.page_size;
  for (int key = len; key < pages * p.page_size; ++key) {
    const int64_t block =
        p.block_table[b * p.block_table_stride + key / p.page_size];
    for (int h = 0; h < p.num_kv_heads; ++h) {
      for (int d = threadIdx.x; d < p.head_dim; d += blockDim.x) {
        const T nan = static_cast<T>(__int_as_float(0x7FC00000));
        const_cast<T*>(
            static_cast<const T*>(p.k))[block * p.k_block_stride +
                                        (key % p.page_size) * p.k_token_stride +
                                        h * p.k_head_stride + d] = nan;
        const_cast<T*>(
            static_cast<const T*>(p.v))[block * p.v_block_stride +
                                        (key % p.page_size) * p.v_token_stride +
                                        h * p.v_head_stride + d] = nan;
      }
    }
  }
}

// One block a (token, head): two passes in float with double sums.
template <typename T>
__global__ void Naive(KernelParams p, float* out, float* lse) {
  extern __shared__ float scores[];
  __shared__ float reduced[256];
  const int b = blockIdx.z;
  const SequenceInfo s = p.schedule.sequences[b];
  const int head = blockIdx.y;
  const int kv_head = head / p.group_size;
  for (int t = blockIdx.x; t < s.q_len; t += gridDim.x) {
    const int64_t token = s.q_begin + t;
    const T* q = static_cast<const T*>(p.q) + token * p.q_token_stride +
                 head * p.q_head_stride;
    const int64_t diagonal = int64_t{t} + s.k_len - s.q_len;
    int64_t lo = 0, hi = s.k_len - 1;
    if (p.window_left >= 0) lo = max(lo, diagonal - p.window_left);
    if (p.window_right >= 0) hi = min(hi, diagonal + p.window_right);
    auto row = [&](const void* base, int64_t key, int64_t bs, int64_t ts,
                   int64_t hs) {
      const T* x = static_cast<const T*>(base) + kv_head * hs;
      if (p.block_table == nullptr) return x + (s.k_begin + key) * ts;
      return x +
             p.block_table[b * p.block_table_stride + key / p.page_size] * bs +
             (key % p.page_size) * ts;
    };
    float largest = -INFINITY;
    for (int64_t j = lo + threadIdx.x; j <= hi; j += blockDim.x) {
      const T* k =
          row(p.k, j, p.k_block_stride, p.k_token_stride, p.k_head_stride);
      float x = 0.0f;
      for (int d = 0; d < p.head_dim; ++d) {
        x += static_cast<float>(q[d]) * static_cast<float>(k[d]);
      }
      x *= p.softmax_scale;
      if (p.softcap > 0) x = p.softcap * tanhf(x / p.softcap);
      scores[j - lo] = x;
      largest = fmaxf(largest, x);
    }
    reduced[threadIdx.x] = largest;
    __syncthreads();
    for (int i = 0; i < blockDim.x; ++i) largest = fmaxf(largest, reduced[i]);
    __syncthreads();
    float sum = 0.0f;
    for (int64_t j = lo + threadIdx.x; j <= hi; j += blockDim.x) {
      scores[j - lo] = expf(scores[j - lo] - largest);
      sum += scores[j - lo];
    }
    reduced[threadIdx.x] = sum;
    __syncthreads();
    double total = 0.0;
    for (int i = 0; i < blockDim.x; ++i) total += reduced[i];
    if (p.sinks != nullptr && hi >= lo) total += exp(p.sinks[head] - largest);
    for (int d = threadIdx.x; d < p.head_dim; d += blockDim.x) {
      double x = 0.0;
      for (int64_t j = lo; j <= hi; ++j) {
        x += scores[j - lo] *
             static_cast<float>(row(p.v, j, p.v_block_stride, p.v_token_stride,
                                    p.v_head_stride)[d]);
      }
      out[(token * p.num_heads + head) * p.head_dim + d] =
          hi >= lo ? x / total : 0.0;
    }
    if (threadIdx.x == 0) {
      lse[head * p.lse_head_stride + token] =
          hi >= lo ? largest + log(total) : -INFINITY;
    }
    __syncthreads();
  }
}

template <typename T>
__global__ void Combine(KernelParams p, int count) {
  for (int i = blockIdx.x; i < count; i += gridDim.x) {
    const CombineItem item = p.schedule.combines[i];
    const SequenceInfo s = p.schedule.sequences[item.batch];
    for (int r = 0; r < item.row_count; ++r) {
      const int packed = item.row_begin + r;
      const int64_t token = s.q_begin + packed / p.group_size;
      const int head = item.kv_head * p.group_size + packed % p.group_size;
      float largest = -INFINITY;
      for (int j = 0; j < item.num_splits; ++j) {
        largest = fmaxf(
            largest,
            p.schedule.partial_lse[item.partial_row + j * item.row_count + r]);
      }
      float sum = 0.0f, x = 0.0f;
      const int d = threadIdx.x;
      for (int j = 0; j < item.num_splits && largest > -INFINITY; ++j) {
        const int64_t at = item.partial_row + j * item.row_count + r;
        const float w = expf(p.schedule.partial_lse[at] - largest);
        if (w == 0.0f) continue;
        sum += w;
        x += w * p.schedule.partial_out[at * p.head_dim + d];
      }
      if (p.sinks != nullptr && sum > 0) sum += expf(p.sinks[head] - largest);
      static_cast<T*>(
          p.out)[token * p.out_token_stride + head * p.out_head_stride + d] =
          static_cast<T>(sum > 0 ? x / sum : 0.0f);
      if (d == 0) {
        p.lse[head * p.lse_head_stride + token] =
            sum > 0 ? largest + logf(sum) : -INFINITY;
      }
    }
  }
}

template <typename T>
__global__ void Compare(const T* out, const float* expected, size_t count,
                        double* sums) {
  double difference = 0.0, norm = 0.0;
  float largest = 0.0f;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
       i += size_t{gridDim.x} * blockDim.x) {
    const float x = static_cast<float>(out[i]);
    const float y = expected[i];
    const float delta = x == y ? 0.0f : fabsf(x - y);
    difference += double{delta} * delta;
    norm += isinf(y) ? 0.0 : double{y} * y;
    if (!(delta <= largest)) largest = delta;
  }
  atomicAdd(&sums[0], difference);
  atomicAdd(&sums[1], norm);
  // NaN bits are larger than those of any other.
  atomicMax(reinterpret_cast<unsigned long long*>(&sums[2]),
            static_cast<unsigned long long>(__float_as_uint(largest)));
}

template <typename T>
class Problem {
 public:
  explicit Problem(const Case& c, uint64_t seed) : c_(c) {
    const int batch = c.q_lens.size();
    std::mt19937 rng(seed);
    std::vector<SequenceInfo> sequences(batch);
    int64_t total_q = 0, total_k = 0, pages = 0, max_pages = 1;
    for (int b = 0; b < batch; ++b) {
      sequences[b] = {};
      sequences[b].q_begin = total_q;
      sequences[b].q_len = c.q_lens[b];
      sequences[b].k_begin = c.page > 0 ? 0 : total_k;
      sequences[b].k_len = c.k_lens[b];
      total_q += c.q_lens[b];
      total_k += c.k_lens[b];
      max_k_ = std::max(max_k_, c.k_lens[b]);
      if (c.page > 0) {
        const int64_t n = (c.k_lens[b] + c.page - 1) / c.page;
        pages += n;
        max_pages = std::max(max_pages, n);
      }
    }
    group_ = c.heads / c.kv_heads;
    MakeItems(sequences);
    const int64_t blocks = pages + 3;
    const int64_t kv_rows = c.page > 0 ? blocks * c.page : total_k;
    const int64_t row = int64_t{c.kv_heads} * c.head_dim;
    q_ = new Buffer<T>(total_q * c.heads * c.head_dim);
    out_ = new Buffer<T>(total_q * c.heads * c.head_dim);
    k_ = new Buffer<T>(kv_rows * row);
    v_ = new Buffer<T>(kv_rows * row);
    lse_ = new Buffer<float>(total_q * c.heads);
    FillRandom<<<1024, 256>>>(q_->data, q_->count, seed * 7919 + 1);
    FillRandom<<<1024, 256>>>(k_->data, k_->count, (seed * 7919 + 2) << 32);
    FillRandom<<<1024, 256>>>(v_->data, v_->count, (seed * 7919 + 3) << 33);
    FillNan<<<1024, 256>>>(out_->data, out_->count);
    FillNan<<<1024, 256>>>(lse_->data, lse_->count);
    sequences_ = new Buffer<SequenceInfo>(sequences);
    if (c.page > 0) {
      std::vector<int32_t> ids(blocks);
      for (int i = 0; i < blocks; ++i) ids[i] = i;
      std::shuffle(ids.begin(), ids.end(), rng);
      std::vector<int32_t> table(batch * max_pages, 2147480000);
      int64_t next = 0;
      for (int b = 0; b < batch; ++b) {
        for (int i = 0; i < (c.k_lens[b] + c.page - 1) / c.page; ++i) {
          table[b * max_pages + i] = ids[next++];
        }
      }
      // What no table names is poison.
      for (; next < blocks; ++next) {
        FillNan<<<64, 256>>>(k_->data + ids[next] * c.page * row, c.page * row);
        FillNan<<<64, 256>>>(v_->data + ids[next] * c.page * row, c.page * row);
      }
      table_ = new Buffer<int32_t>(table);
    }
    std::vector<float> sinks(c.heads);
    for (float& x : sinks) x = std::uniform_real_distribution<>(-2, 3)(rng);
    sinks_ = new Buffer<float>(sinks);
    for (int r = 0; r < kNumRoles; ++r)
      items_[r] = new Buffer<WorkItem>(host_items_[r]);
    combines_ = new Buffer<CombineItem>(host_combines_);
    ScheduleHeader header = {};
    for (int r = 0; r < kNumRoles; ++r)
      header.num_items[r] = host_items_[r].size();
    header_ = new Buffer<ScheduleHeader>(std::vector<ScheduleHeader>{header});
    counters_ = new Buffer<WorkCounter>(std::vector<WorkCounter>(kNumRoles));
    partial_out_ = new Buffer<float>(int64_t{partial_rows_} * c.head_dim);
    partial_lse_ = new Buffer<float>(partial_rows_);
    FillNan<<<64, 256>>>(partial_out_->data, partial_out_->count);

    KernelParams& p = params_;
    p = {};
    p.q = q_->data;
    p.out = out_->data;
    p.q_token_stride = p.out_token_stride = int64_t{c.heads} * c.head_dim;
    p.q_head_stride = p.out_head_stride = c.head_dim;
    p.lse = lse_->data;
    p.lse_head_stride = total_q;
    p.k = k_->data;
    p.v = v_->data;
    p.k_token_stride = p.v_token_stride = row;
    p.k_head_stride = p.v_head_stride = c.head_dim;
    p.k_block_stride = p.v_block_stride = row * c.page;
    p.block_table = table_ == nullptr ? nullptr : table_->data;
    p.block_table_stride = max_pages;
    p.num_blocks = c.page > 0 ? blocks : 0;
    p.page_size = std::max(1, c.page);
    p.page_divisor = FastDivisor(p.page_size);
    p.total_k = c.page > 0 ? 0 : total_k;
    p.total_q = total_q;
    p.dtype = c.dtype;
    p.head_dim = c.head_dim;
    p.num_heads = c.heads;
    p.num_kv_heads = c.kv_heads;
    p.group_size = group_;
    p.group_divisor = FastDivisor(group_);
    p.softmax_scale =
        c.scale != 0 ? c.scale : 1.0f / std::sqrt(float(c.head_dim));
    p.scale_log2 = p.softmax_scale * 1.4426950408889634f;
    p.softcap = c.softcap;
    p.sinks = c.sinks ? sinks_->data : nullptr;
    p.window_left = c.left;
    p.window_right = c.right;
    p.schedule.sequences = sequences_->data;
    p.schedule.header = header_->data;
    for (int r = 0; r < kNumRoles; ++r) p.schedule.items[r] = items_[r]->data;
    p.schedule.counters = counters_->data;
    p.schedule.combines = combines_->data;
    p.schedule.partial_out = partial_out_->data;
    p.schedule.partial_lse = partial_lse_->data;
    p.schedule.batch = batch;
    CHECK_CUDA(cudaGetDevice(&p.device));
    CHECK_CUDA(cudaDeviceGetAttribute(
        &p.num_sms, cudaDevAttrMultiProcessorCount, p.device));
    if (c.page > 0 && batch > 0) PoisonTails<T><<<batch, 128>>>(p);
    CHECK_CUDA(cudaGetLastError());
    CHECK_CUDA(cudaDeviceSynchronize());
  }

  ~Problem() {
    delete q_;
    delete k_;
    delete v_;
    delete out_;
    delete lse_;
    delete table_;
    delete sinks_;
    delete sequences_;
    delete header_;
    delete counters_;
    delete combines_;
    delete partial_out_;
    delete partial_lse_;
    for (auto* items : items_) delete items;
  }

  void Launch(cudaStream_t stream = nullptr) {
    if (mixed) {
      CHECK_CUDA(kHopperFamily.launch_mixed(params_, stream));
    }
    for (int r = 0; r < kNumRoles; ++r) {
      if (mixed || host_items_[r].empty()) continue;
      CHECK_CUDA(kHopperFamily.launch(params_, static_cast<Role>(r), stream));
    }
    if (!host_combines_.empty()) {
      Combine<T>
          <<<1024, c_.head_dim, 0, stream>>>(params_, host_combines_.size());
      CHECK_CUDA(cudaGetLastError());
    }
  }

  bool mixed = false;  // both roles in one launch

  // Relative and largest error, for both ways to launch.
  bool CheckBoth(const char* name) {
    const bool apart = Check(name);
    mixed = true;
    FillNan<<<1024, 256>>>(out_->data, out_->count);
    FillNan<<<1024, 256>>>(lse_->data, lse_->count);
    FillNan<<<64, 256>>>(partial_out_->data, partial_out_->count);
    return Check((std::string(name) + " mixed").c_str()) && apart;
  }

  // Relative and largest error.
  bool Check(const char* name) {
    Launch();
    Launch();  // counters must have reset themselves
    CHECK_CUDA(cudaDeviceSynchronize());
    Buffer<float> expected(out_->count);
    Buffer<float> expected_lse(lse_->count);
    const size_t smem = (max_k_ + 1) * sizeof(float);
    CHECK_CUDA(cudaFuncSetAttribute(
        Naive<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024));
    Naive<T><<<dim3(64, c_.heads, c_.q_lens.size()), 128, smem>>>(
        params_, expected.data, expected_lse.data);
    CHECK_CUDA(cudaGetLastError());
    Buffer<double> sums(std::vector<double>(6, 0.0));
    Compare<<<256, 256>>>(out_->data, expected.data, out_->count, sums.data);
    Compare<<<256, 256>>>(lse_->data, expected_lse.data, lse_->count,
                          sums.data + 3);
    double host[6];
    CHECK_CUDA(
        cudaMemcpy(host, sums.data, sizeof(host), cudaMemcpyDeviceToHost));
    float largest[2];
    std::memcpy(&largest[0], &host[2], 4);
    std::memcpy(&largest[1], &host[5], 4);
    const double relative =
        host[0] == 0 ? 0 : std::sqrt(host[0] / std::max(host[1], 1e-30));
    const double limit = c_.dtype == DataType::kBFloat16 ? 6e-3 : 1e-3;
    const bool ok = relative < limit && largest[1] < 3e-3;
    std::printf("%s %-40s rel %.2e max %.2e lse max %.2e items %zu+%zu\n",
                ok ? "ok   " : "WRONG", name, relative, largest[0], largest[1],
                host_items_[0].size(), host_items_[1].size());
    std::fflush(stdout);
    return ok;
  }

  // Median microseconds of a launch.
  double Time(int repeats) {
    std::vector<double> times;
    cudaEvent_t start, stop;
    CHECK_CUDA(cudaEventCreate(&start));
    CHECK_CUDA(cudaEventCreate(&stop));
    for (int i = 0; i < repeats + 3; ++i) {
      CHECK_CUDA(cudaEventRecord(start));
      Launch();
      CHECK_CUDA(cudaEventRecord(stop));
      CHECK_CUDA(cudaEventSynchronize(stop));
      float ms;
      CHECK_CUDA(cudaEventElapsedTime(&ms, start, stop));
      if (i >= 3) times.push_back(ms * 1e3);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

 private:
  void MakeItems(const std::vector<SequenceInfo>& sequences) {
    const AttentionShape shape = {c_.dtype, c_.heads, c_.kv_heads, c_.head_dim};
    for (int b = 0; b < static_cast<int>(sequences.size()); ++b) {
      const SequenceInfo& s = sequences[b];
      const int rows = s.q_len * group_;
      const int decode_rows =
          kHopperFamily.tile_shape(shape, Role::kDecode, {}).rows;
      const int role = rows <= decode_rows ? 1 : 0;
      const TileShape tile =
          kHopperFamily.tile_shape(shape, static_cast<Role>(role), {});
      const int64_t split =
          role == 0 && c_.split_decodes_only
              ? int64_t{INT32_MAX}
              : (int64_t{c_.split} + tile.kv - 1) / tile.kv * tile.kv;
      for (int row = 0; row < rows; row += tile.rows) {
        const int count = std::min(tile.rows, rows - row);
        const int64_t shift = s.k_len - s.q_len;
        int64_t lo = 0, hi = s.k_len;
        if (c_.left >= 0) lo = std::max(lo, row / group_ + shift - c_.left);
        if (c_.right >= 0) {
          hi = std::min(hi, (row + count - 1) / group_ + shift + c_.right + 1);
        }
        if (hi <= lo) hi = lo = 0;
        const int64_t begin = lo / split;
        const int64_t end = std::max(begin + 1, (hi + split - 1) / split);
        for (int h = 0; h < c_.kv_heads; ++h) {
          const bool split_up = end - begin > 1;
          if (split_up) {
            host_combines_.push_back({b,
                                      h,
                                      row,
                                      count,
                                      partial_rows_,
                                      static_cast<int>(end - begin),
                                      {0, 0}});
          }
          for (int64_t i = begin; i < end; ++i) {
            host_items_[role].push_back(
                {b, h, row, count, static_cast<int>(std::max(lo, i * split)),
                 static_cast<int>(std::min(hi, (i + 1) * split)),
                 split_up ? partial_rows_ : -1, static_cast<int>(i - begin)});
            if (split_up) partial_rows_ += count;
          }
        }
      }
    }
    for (auto& items : host_items_) {
      std::stable_sort(items.begin(), items.end(),
                       [](const WorkItem& a, const WorkItem& b) {
                         return a.kv_end - a.kv_begin > b.kv_end - b.kv_begin;
                       });
    }
  }

  Case c_;
  int group_ = 1;
  int max_k_ = 0;
  int partial_rows_ = 0;
  std::vector<WorkItem> host_items_[kNumRoles];
  std::vector<CombineItem> host_combines_;
  Buffer<T>*q_, *k_, *v_, *out_;
  Buffer<float>* lse_;
  Buffer<int32_t>* table_ = nullptr;
  Buffer<float>* sinks_;
  Buffer<SequenceInfo>* sequences_;
  Buffer<WorkItem>* items_[kNumRoles];
  Buffer<ScheduleHeader>* header_;
  Buffer<WorkCounter>* counters_;
  Buffer<CombineItem>* combines_;
  Buffer<float>*partial_out_, *partial_lse_;
  KernelParams params_;
};

bool CheckCase(const Case& c, const char* name) {
  static uint64_t seed = std::random_device()();
  ++seed;
  return c.dtype == DataType::kBFloat16
             ? Problem<__nv_bfloat16>(c, seed).CheckBoth(name)
             : Problem<__half>(c, seed).CheckBoth(name);
}

bool CheckAll() {
  bool ok = true;
  for (int d : {128, 64, 256}) {
    for (DataType t : {DataType::kBFloat16, DataType::kFloat16}) {
      const std::string suffix = " d" + std::to_string(d) +
                                 (t == DataType::kBFloat16 ? " bf16" : " fp16");
      const auto run = [&](const char* name, std::function<void(Case&)> edit) {
        Case c;
        c.head_dim = d;
        c.dtype = t;
        edit(c);
        ok = CheckCase(c, (name + suffix).c_str()) && ok;
      };
      run("one tile contiguous", [](Case& c) {
        c.q_lens = {32};
        c.k_lens = {128};
        c.page = 0;
        c.right = -1;
      });
      run("contiguous full", [](Case& c) {
        c.q_lens = {300, 64};
        c.k_lens = {700, 513};
        c.page = 0;
        c.right = -1;
      });
      run("contiguous causal", [](Case& c) {
        c.q_lens = {10, 3, 1, 517, 0, 300};
        c.k_lens = {0, 1, 7, 517, 9, 1000};
        c.page = 0;
      });
      for (int page : {16, 256, 1, 48, 480, 8}) {
        run(("paged causal " + std::to_string(page)).c_str(), [&](Case& c) {
          c.q_lens = {200, 1, 33, 1, 5};
          c.k_lens = {900, 130, 33, 1, 1029};
          c.page = page;
        });
      }
      run("window", [](Case& c) {
        c.q_lens = {300, 1, 2};
        c.k_lens = {1000, 777, 300};
        c.left = 100;
      });
      run("two-sided window", [](Case& c) {
        c.q_lens = {300, 1, 2};
        c.k_lens = {700, 777, 300};
        c.left = 60;
        c.right = 70;
      });
      run("softcap sinks", [](Case& c) {
        c.q_lens = {300, 1, 2};
        c.k_lens = {700, 777, 300};
        c.softcap = 5.0f;
        c.sinks = true;
      });
      run("split sinks", [](Case& c) {
        c.q_lens = {150, 1, 2, 1};
        c.k_lens = {1700, 3000, 300, 17};
        c.sinks = true;
        c.split = 512;
      });
      run("group 3, heads 9", [](Case& c) {
        c.heads = 9;
        c.kv_heads = 3;
        c.q_lens = {150, 1, 2, 7};
        c.k_lens = {700, 777, 300, 400};
      });
      run("group 1", [](Case& c) {
        c.heads = 4;
        c.kv_heads = 4;
        c.q_lens = {150, 1, 2, 17};
        c.k_lens = {700, 777, 300, 1400};
      });
      run("negative scale", [](Case& c) {
        c.q_lens = {150, 1};
        c.k_lens = {700, 777};
        c.scale = -0.1f;
      });
      run("long", [](Case& c) {
        c.q_lens = {1, 1030};
        c.k_lens = {20000, 5000};
      });
    }
  }
  return ok;
}

void TimeOnePrefill(int causal, int page, int len, int d) {
  Case c;
  c.q_lens = c.k_lens = std::vector<int>(16384 / len, len);
  c.page = page;
  c.head_dim = d;
  c.right = causal ? 0 : -1;
  Problem<__nv_bfloat16> problem(c, 1);
  const double us = problem.Time(7);
  const double flop = 4.0 * 16384 * len * 32 * d * (causal ? 0.5 : 1);
  std::printf("%s page %3d len %5d d %3d: %8.1f us %6.1f TFLOP/s\n",
              causal ? "causal" : "full  ", page, len, d, us, flop / us * 1e-6);
  std::fflush(stdout);
}

void TimePrefill() {
  std::printf("prefill, bf16 32/8, 16384 tokens\n");
  for (int page : {0, 16, 256}) {
    for (int len : {512, 1024, 2048, 4096, 8192, 16384}) {
      TimeOnePrefill(1, page, len, 128);
    }
    for (int len : {2048, 8192}) TimeOnePrefill(0, page, len, 128);
    for (int d : {64, 256}) TimeOnePrefill(1, page, 8192, d);
  }
}

// A chunk behind `len` keys of its own, and `batch` decodes of `len` keys.
void TimeOneMixed(int page, int chunk, int batch, int len) {
  Case c;
  c.page = page;
  c.split = 2048;
  c.split_decodes_only = true;
  double us[3], alone[3];
  for (int part = 0; part < 3; ++part) {  // chunk, decodes, both
    c.q_lens.clear();
    c.k_lens.clear();
    if (part != 1) {
      c.q_lens.push_back(chunk);
      c.k_lens.push_back(len + chunk);
    }
    if (part != 0) {
      c.q_lens.insert(c.q_lens.end(), batch, 1);
      c.k_lens.insert(c.k_lens.end(), batch, len);
    }
    Problem<__nv_bfloat16> problem(c, 1);
    us[part] = problem.Time(7);
    problem.mixed = true;
    alone[part] = problem.Time(7);
    if (part == 2) {
      std::printf(
          "mixed page %d chunk %d, %d decodes of %d: chunk %.1f (%.1f by the "
          "mixed kernel) decodes %.1f (%.1f) two launches %.1f one %.1f us\n",
          page, chunk, batch, len, us[0], alone[0], us[1], alone[1], us[2],
          alone[2]);
      std::fflush(stdout);
    }
  }
}

double TimeOneDecode(int page, int batch, int len, int d, int split) {
  Case c;
  c.q_lens = std::vector<int>(batch, 1);
  c.k_lens = std::vector<int>(batch, len);
  c.head_dim = d;
  c.page = page;
  c.split = split;
  Problem<__nv_bfloat16> problem(c, 1);
  const double us = problem.Time(9);
  const double bytes = 2.0 * 2 * batch * len * 8 * d;
  std::printf("decode d %3d page %3d b %3d ctx %5d split %10d: %8.1f %7.1f\n",
              d, page, batch, len, split, us, bytes / us * 1e-3);
  std::fflush(stdout);
  return us;
}

void TimeCopy() {
  const size_t bytes = size_t{4} << 30;
  Buffer<char> a(bytes), b(bytes);
  cudaEvent_t start, stop;
  CHECK_CUDA(cudaEventCreate(&start));
  CHECK_CUDA(cudaEventCreate(&stop));
  std::vector<float> times;
  for (int i = 0; i < 9; ++i) {
    CHECK_CUDA(cudaEventRecord(start));
    CHECK_CUDA(
        cudaMemcpyAsync(a.data, b.data, bytes, cudaMemcpyDeviceToDevice));
    CHECK_CUDA(cudaEventRecord(stop));
    CHECK_CUDA(cudaEventSynchronize(stop));
    float ms;
    CHECK_CUDA(cudaEventElapsedTime(&ms, start, stop));
    times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  std::printf("copy: %.1f GB/s\n", 2e-6 * bytes / times[4]);
}

void TimeDecode() {
  TimeCopy();
  std::printf("decode, bf16 32/8: d page batch ctx split: us GB/s\n");
  struct Row {
    int d, page, batch, ctx;
  };
  for (const Row& r : std::initializer_list<Row>{{128, 16, 1, 1024},
                                                 {128, 16, 16, 1024},
                                                 {128, 16, 64, 1024},
                                                 {128, 16, 256, 1024},
                                                 {128, 16, 1, 8192},
                                                 {128, 16, 16, 8192},
                                                 {128, 16, 64, 8192},
                                                 {128, 16, 256, 8192},
                                                 {128, 256, 64, 8192},
                                                 {128, 1, 64, 8192},
                                                 {64, 16, 64, 8192},
                                                 {256, 16, 64, 8192}}) {
    double best = 1e30;
    int best_split = 0;
    for (int split : {256, 512, 1024, 2048, INT32_MAX}) {
      if (split != INT32_MAX && split >= r.ctx) continue;
      Case c;
      c.q_lens = std::vector<int>(r.batch, 1);
      c.k_lens = std::vector<int>(r.batch, r.ctx);
      c.head_dim = r.d;
      c.page = r.page;
      c.split = split;
      Problem<__nv_bfloat16> problem(c, 1);
      const double us = problem.Time(7);
      if (us < best) best = us, best_split = split;
    }
    const double bytes = 2.0 * 2 * r.batch * r.ctx * 8 * r.d;
    std::printf("d %3d page %3d b %3d ctx %5d split %10d: %8.1f %7.1f\n", r.d,
                r.page, r.batch, r.ctx, best_split, best, bytes / best * 1e-3);
    std::fflush(stdout);
  }
}

int Main(int argc, char** argv) {
  bool ok = true;
  for (int i = 1; i < argc; ++i) {
    const std::string what = argv[i];
    if (what == "check") ok = CheckAll() && ok;
    if (what == "prefill") TimePrefill();
    if (what == "decode") TimeDecode();
    int causal, page, len, d, batch, split, chunk;
    if (std::sscanf(argv[i], "mixed:%d,%d,%d,%d", &page, &chunk, &batch,
                    &len) == 4) {
      TimeOneMixed(page, chunk, batch, len);
    }
    if (std::sscanf(argv[i], "prefill:%d,%d,%d,%d", &causal, &page, &len, &d) ==
        4) {
      TimeOnePrefill(causal, page, len, d);
    }
    if (std::sscanf(argv[i], "decode:%d,%d,%d,%d,%d", &page, &batch, &len, &d,
                    &split) == 5) {
      TimeOneDecode(page, batch, len, d, split);
    }
  }
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace interleave::attention

int main(int argc, char** argv) {
  return interleave::attention::Main(argc, argv);
}
