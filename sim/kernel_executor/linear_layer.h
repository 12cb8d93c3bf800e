// LinearLayer: y = x W^T in bf16 with sums in float, by cuBLASLt, for one W
// shape and any number of tokens.

#ifndef SIM_KERNEL_EXECUTOR_LINEAR_LAYER_H_
#define SIM_KERNEL_EXECUTOR_LINEAR_LAYER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cuda_runtime_api.h"
#include "sim/kernel_executor/cublas_lt.h"

namespace interleave::sim {

// A cuBLASLt handle of the current device, and memory for its kernels.
class LinearContext {
 public:
  // `workspace` is device memory, 256-byte aligned, not owned.
  static absl::StatusOr<std::unique_ptr<LinearContext>> Create(
      void* workspace, int64_t workspace_bytes);
  ~LinearContext();
  LinearContext(const LinearContext&) = delete;
  LinearContext& operator=(const LinearContext&) = delete;

  const CublasLt& lt() const { return lt_; }
  cublasLtHandle_t handle() const { return handle_; }
  void* workspace() const { return workspace_; }
  int64_t workspace_bytes() const { return workspace_bytes_; }

 private:
  LinearContext(const CublasLt& lt, cublasLtHandle_t handle, void* workspace,
                int64_t workspace_bytes)
      : lt_(lt),
        handle_(handle),
        workspace_(workspace),
        workspace_bytes_(workspace_bytes) {}

  const CublasLt& lt_;
  const cublasLtHandle_t handle_;
  void* const workspace_;
  const int64_t workspace_bytes_;
};

struct LinearOptions {
  int32_t inputs = 0;   // columns of x and of W
  int32_t outputs = 0;  // rows of W, columns of y
  int64_t max_tokens = 0;
  // Whether y is float instead of bf16.
  bool float_output = false;
  // One algorithm for any number of tokens, which splits no sum.
  bool batch_invariant = false;
};

class LinearLayer {
 public:
  // `context` must outlive the layer. Chooses algorithms by cuBLASLt's
  // heuristic.
  static absl::StatusOr<LinearLayer> Create(const LinearContext* context,
                                            const LinearOptions& options);

  LinearLayer(LinearLayer&&) = default;
  LinearLayer& operator=(LinearLayer&&) = default;

  // By the most tokens of a bucket.
  using Algorithms = std::map<int64_t, cublasLtMatmulAlgo_t>;

  // Takes the `known` algorithm of each bucket that has one that suits it. For
  // the others, times the best few algorithms, with the given
  // weights in turn so that none stays in the cache, and keeps the fastest, of
  // those within 2% the heuristic's favourite. x and y hold max_tokens rows; y
  // is overwritten. Nothing to do where the layer is batch-invariant.
  absl::Status Tune(absl::Span<const void* const> weights, const void* x,
                    void* y, cudaStream_t stream, const Algorithms& known);

  // What each bucket has now.
  Algorithms algorithms() const;

  // Enqueues y [tokens, outputs] = x [tokens, inputs] W^T [inputs, outputs].
  absl::Status Run(const void* x, const void* weight, int64_t tokens, void* y,
                   cudaStream_t stream);

 private:
  struct Desc {
    const CublasLt* lt = nullptr;
    cublasLtMatmulDesc_t matmul = nullptr;
    cublasLtMatrixLayout_t weight = nullptr;
    cublasLtMatrixLayout_t x = nullptr;
    cublasLtMatrixLayout_t y = nullptr;

    Desc() = default;
    Desc(const Desc&) = delete;
    Desc& operator=(const Desc&) = delete;
    ~Desc();
  };
  // Up to this many tokens, this algorithm.
  struct Bucket {
    int64_t tokens = 0;
    cublasLtMatmulAlgo_t algorithm = {};
  };

  LinearLayer(const LinearContext* context, const LinearOptions& options)
      : context_(context), options_(options) {}

  absl::Status MakeDesc();
  absl::Status SetTokens(int64_t tokens);
  absl::StatusOr<std::vector<cublasLtMatmulAlgo_t>> Candidates(int64_t tokens,
                                                               int count);
  absl::StatusOr<cublasLtMatmulAlgo_t> InvariantAlgorithm();
  // Whether cuBLASLt takes it for so many tokens, with the workspace there is.
  absl::StatusOr<bool> Suits(const cublasLtMatmulAlgo_t& algorithm,
                             int64_t tokens);
  absl::Status Launch(const cublasLtMatmulAlgo_t& algorithm, const void* x,
                      const void* weight, void* y, cudaStream_t stream);
  // `fewest`: tokens of the smallest batch in the bucket.
  absl::Status TuneBucket(absl::Span<const void* const> weights, const void* x,
                          void* y, cudaStream_t stream, int64_t fewest,
                          Bucket& bucket);

  const LinearContext* context_;
  LinearOptions options_;
  std::unique_ptr<Desc> desc_;
  int64_t tokens_ = -1;
  std::vector<Bucket> buckets_;
};

}  // namespace interleave::sim

#endif  // SIM_KERNEL_EXECUTOR_LINEAR_LAYER_H_
