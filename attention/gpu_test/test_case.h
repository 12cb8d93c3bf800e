// One attention call on device memory, made from a description: inputs drawn
// from a seed, everything that must not be read or written poisoned, the result
// compared with the oracle.

#ifndef ATTENTION_GPU_TEST_TEST_CASE_H_
#define ATTENTION_GPU_TEST_TEST_CASE_H_

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/gpu_test/oracle.h"
#include "attention/paged_attention.h"
#include "attention/params.h"
#include "attention/tile_schedule.h"
#include "cuda_runtime_api.h"

namespace interleave::attention {

// Whether a device that the kernels support is there.
bool HasGpu();

// A slab of device memory, handed out piece by piece and taken back at once.
class DeviceArena {
 public:
  explicit DeviceArena(int64_t bytes);
  ~DeviceArena();
  DeviceArena(const DeviceArena&) = delete;
  DeviceArena& operator=(const DeviceArena&) = delete;

  // 256-byte aligned; dies where the slab is too small.
  void* Take(int64_t bytes);
  template <typename T>
  T* Upload(const std::vector<T>& values) {
    T* piece = static_cast<T*>(Take(values.size() * sizeof(T)));
    CopyIn(piece, values.data(), values.size() * sizeof(T));
    return piece;
  }
  void Reset() { used_ = 0; }
  int64_t left() const { return size_ - used_; }

 private:
  static void CopyIn(void* to, const void* from, int64_t bytes);

  char* base_ = nullptr;
  int64_t size_;
  int64_t used_ = 0;
};

enum class Path { kVarlen, kDecode, kMixed };
enum class CacheLayout { kSlotsThenHeads, kHeadsThenSlots, kFused };
enum class Poison { kKeysAndValues, kKeys, kValues, kInfinities };
enum class AppendMode { kNone, kQueries, kSeparate };

struct CaseSpec {
  AttentionShape shape;
  AttentionMask mask;
  float softmax_scale = 0;
  float softcap = 0;
  bool sinks = false;
  bool lse = true;
  Path path = Path::kMixed;
  AppendMode append = AppendMode::kQueries;
  std::vector<int32_t> q_lens;
  // Keys before the call: contiguous ones, or the cached (-1: padding row).
  std::vector<int32_t> k_lens;
  std::vector<int32_t> new_lens;  // AppendMode::kSeparate
  int32_t page_size = 16;
  CacheLayout layout = CacheLayout::kSlotsThenHeads;
  Poison poison = Poison::kKeysAndValues;
  int32_t rotary_dim = 0;  // 0: none
  bool rotary_interleaved = false;
  bool head_major_q = false;  // q and out as [heads, tokens, head_dim]
  int32_t row_padding = 0;    // elements between rows of q, k, v, out
  int32_t extra_rows = 0;     // rows of q and out past the last sequence
  int32_t extra_blocks = 3;   // blocks that nobody uses
  bool share_blocks = false;
  float amplitude = 1.0f;
  bool batch_invariant = false;
  KernelChoice kernels = KernelChoice::kAuto;
  uint64_t seed = 1;

  std::string ToString() const;
};

// A random point of the test matrix that the oracle can do in about a
// millisecond.
CaseSpec RandomSpec(std::mt19937_64& random);

class TestCase {
 public:
  // Builds the inputs in the arena.
  TestCase(const CaseSpec& spec, DeviceArena& arena);

  // Poisons out, lse and a fresh workspace; plans; runs the path.
  absl::Status Run(cudaStream_t stream);
  // As Run with a plan of the caller's.
  absl::Status RunWithPlan(Plan& plan, cudaStream_t stream);
  void PoisonOutputs(cudaStream_t stream);
  // Puts the cache back to what it was before the first run.
  void RestoreCache(cudaStream_t stream);

  // Empty where the last run's outputs and cache are right; else what is wrong.
  struct Verdict {
    std::string problem;
    double error = 0;          // largest, of out
    double rounded_error = 0;  // of the same computation in 16 bits
    double unit = 0;           // in the last place of the largest exact |out|
    double lse_error = 0;      // relative where |lse| > 1
  };
  Verdict Check(cudaStream_t stream);
  // As Check without the cache, for lengths changed since the case was built.
  Verdict CheckAttention(cudaStream_t stream);

  // The owned rows of out as bits, [total_q, num_heads, head_dim].
  std::vector<uint16_t> ReadOut() const;

  PlanConfig config;
  BatchMetadata batch;
  VarlenParams varlen;
  PagedParams paged;

 private:
  void BuildLengths();
  void BuildQueries();
  void BuildContiguousKeys();
  void BuildCache();
  void BuildAppend();
  std::vector<std::vector<int32_t>> AssignBlocks(int64_t& num_blocks);
  OracleCall Oracle() const;
  Verdict Compare(bool with_cache, cudaStream_t stream);

  CaseSpec spec_;
  DeviceArena& arena_;
  RawLengths lengths_;
  int32_t total_q_ = 0;
  int32_t total_new_ = 0;
  int64_t out_elements_ = 0;
  uint16_t* out_ = nullptr;
  float* lse_ = nullptr;
  uint16_t* cache_ = nullptr;
  uint16_t* expected_cache_ = nullptr;
  uint16_t* pristine_cache_ = nullptr;
  int64_t cache_elements_ = 0;
};

// Dies with CUDA's words where error is not cudaSuccess.
void CheckCuda(cudaError_t error, const char* what);

}  // namespace interleave::attention

#endif  // ATTENTION_GPU_TEST_TEST_CASE_H_
