#include "sim/kernel_executor/linear_layer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/statistics.h"
#include "base/status_macros.h"
#include "cuda_runtime_api.h"
#include "sim/kernel_executor/cublas_lt.h"
#include "sim/kernel_executor/cuda_memory.h"
#include "sim/kernel_executor/linear_buckets.h"

namespace interleave::sim {
namespace {

constexpr int kCandidates = 8;
// Launches of both sizes that are timed together, and how often: the median
// counts.
constexpr int kTimedRounds = 2;
constexpr int kTimings = 5;
constexpr double kFarBehind = 1.15;
constexpr double kAsFast = 1.02;
// Above this many tokens one launch takes long enough.
constexpr int64_t kManyTokens = 4096;

// An algorithm, and what it took each time.
struct Tried {
  const cublasLtMatmulAlgo_t* algorithm;
  std::vector<double> milliseconds;
};

double MedianOf(const Tried& tried) {
  return tried.milliseconds.empty() ? std::numeric_limits<double>::infinity()
                                    : Median(tried.milliseconds);
}

double LeastMedian(const std::vector<Tried>& all) {
  double least = std::numeric_limits<double>::infinity();
  for (const Tried& tried : all) least = std::min(least, MedianOf(tried));
  return least;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LinearContext>> LinearContext::Create(
    void* workspace, int64_t workspace_bytes) {
  ASSIGN_OR_RETURN(const CublasLt* const lt, LoadCublasLt());
  cublasLtHandle_t handle = nullptr;
  RETURN_IF_ERROR(lt->Check(lt->create(&handle), "cublasLtCreate"));
  return std::unique_ptr<LinearContext>(
      new LinearContext(*lt, handle, workspace, workspace_bytes));
}

LinearContext::~LinearContext() {
  (void)lt_.destroy(handle_);  // nobody is left to tell
}

LinearLayer::Desc::~Desc() {
  if (matmul != nullptr) (void)lt->desc_destroy(matmul);
  for (cublasLtMatrixLayout_t layout : {weight, x, y}) {
    if (layout != nullptr) (void)lt->layout_destroy(layout);
  }
}

absl::StatusOr<LinearLayer> LinearLayer::Create(const LinearContext* context,
                                                const LinearOptions& options) {
  LinearLayer layer(context, options);
  RETURN_IF_ERROR(layer.MakeDesc());
  if (options.batch_invariant) {
    Bucket bucket;
    bucket.tokens = options.max_tokens;
    ASSIGN_OR_RETURN(bucket.algorithm, layer.InvariantAlgorithm());
    layer.buckets_.push_back(bucket);
    return layer;
  }
  for (const int64_t tokens : LinearBuckets(options.max_tokens)) {
    ASSIGN_OR_RETURN(const std::vector<cublasLtMatmulAlgo_t> candidates,
                     layer.Candidates(tokens, 1));
    layer.buckets_.push_back({tokens, candidates[0]});
  }
  return layer;
}

// cuBLASLt's matrices are column-major: y^T = W x^T, where W's rows are the
// columns of a transposed matrix.
absl::Status LinearLayer::MakeDesc() {
  const CublasLt& lt = context_->lt();
  desc_ = std::make_unique<Desc>();
  desc_->lt = &lt;
  RETURN_IF_ERROR(
      lt.Check(lt.desc_create(&desc_->matmul, CUBLAS_COMPUTE_32F, CUDA_R_32F),
               "cublasLtMatmulDescCreate"));
  const cublasOperation_t transpose = CUBLAS_OP_T;
  RETURN_IF_ERROR(
      lt.Check(lt.desc_set(desc_->matmul, CUBLASLT_MATMUL_DESC_TRANSA,
                           &transpose, sizeof(transpose)),
               "cublasLtMatmulDescSetAttribute"));
  const uint64_t inputs = static_cast<uint64_t>(options_.inputs);
  const uint64_t outputs = static_cast<uint64_t>(options_.outputs);
  const uint64_t tokens = static_cast<uint64_t>(options_.max_tokens);
  const cudaDataType_t y_type =
      options_.float_output ? CUDA_R_32F : CUDA_R_16BF;
  const struct {
    cublasLtMatrixLayout_t* layout;
    cudaDataType_t type;
    uint64_t rows;
    uint64_t columns;
  } layouts[] = {{&desc_->weight, CUDA_R_16BF, inputs, outputs},
                 {&desc_->x, CUDA_R_16BF, inputs, tokens},
                 {&desc_->y, y_type, outputs, tokens}};
  for (const auto& each : layouts) {
    RETURN_IF_ERROR(lt.Check(
        lt.layout_create(each.layout, each.type, each.rows, each.columns,
                         static_cast<int64_t>(each.rows)),
        "cublasLtMatrixLayoutCreate"));
  }
  tokens_ = options_.max_tokens;
  return absl::OkStatus();
}

absl::Status LinearLayer::SetTokens(int64_t tokens) {
  if (tokens == tokens_) return absl::OkStatus();
  const CublasLt& lt = context_->lt();
  const uint64_t columns = static_cast<uint64_t>(tokens);
  for (cublasLtMatrixLayout_t layout : {desc_->x, desc_->y}) {
    RETURN_IF_ERROR(lt.Check(lt.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_COLS,
                                           &columns, sizeof(columns)),
                             "cublasLtMatrixLayoutSetAttribute"));
  }
  tokens_ = tokens;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<cublasLtMatmulAlgo_t>> LinearLayer::Candidates(
    int64_t tokens, int count) {
  const CublasLt& lt = context_->lt();
  RETURN_IF_ERROR(SetTokens(tokens));
  cublasLtMatmulPreference_t preference = nullptr;
  RETURN_IF_ERROR(lt.Check(lt.preference_create(&preference),
                           "cublasLtMatmulPreferenceCreate"));
  const uint64_t workspace = static_cast<uint64_t>(context_->workspace_bytes());
  const uint32_t schemes = options_.batch_invariant
                               ? CUBLASLT_REDUCTION_SCHEME_NONE
                               : CUBLASLT_REDUCTION_SCHEME_MASK;
  std::vector<cublasLtMatmulHeuristicResult_t> results(
      static_cast<size_t>(count));
  int found = 0;
  cublasStatus_t status =
      lt.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                        &workspace, sizeof(workspace));
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = lt.preference_set(preference,
                               CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                               &schemes, sizeof(schemes));
  }
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = lt.algo_get_heuristic(context_->handle(), desc_->matmul,
                                   desc_->weight, desc_->x, desc_->y, desc_->y,
                                   preference, count, results.data(), &found);
  }
  (void)lt.preference_destroy(preference);
  RETURN_IF_ERROR(lt.Check(status, "cublasLtMatmulAlgoGetHeuristic"));
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < found; ++i) {
    const cublasLtMatmulHeuristicResult_t& result =
        results[static_cast<size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS) {
      algorithms.push_back(result.algo);
    }
  }
  if (algorithms.empty()) {
    return absl::UnimplementedError(absl::StrCat(
        "cuBLASLt has no algorithm for a linear layer of ", options_.inputs,
        " inputs, ", options_.outputs, " outputs and ", tokens, " tokens"));
  }
  return algorithms;
}

absl::StatusOr<bool> LinearLayer::Suits(const cublasLtMatmulAlgo_t& algorithm,
                                        int64_t tokens) {
  RETURN_IF_ERROR(SetTokens(tokens));
  cublasLtMatmulHeuristicResult_t result = {};
  return context_->lt().algo_check(context_->handle(), desc_->matmul,
                                   desc_->weight, desc_->x, desc_->y, desc_->y,
                                   &algorithm,
                                   &result) == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <=
             static_cast<size_t>(context_->workspace_bytes());
}

absl::StatusOr<cublasLtMatmulAlgo_t> LinearLayer::InvariantAlgorithm() {
  constexpr int64_t kTypicalTokens = 256;
  ASSIGN_OR_RETURN(const std::vector<cublasLtMatmulAlgo_t> candidates,
                   Candidates(std::min(options_.max_tokens, kTypicalTokens),
                              2 * kCandidates));
  for (const cublasLtMatmulAlgo_t& algorithm : candidates) {
    bool suits_all = true;
    for (const int64_t tokens : LinearBuckets(options_.max_tokens)) {
      ASSIGN_OR_RETURN(suits_all, Suits(algorithm, tokens));
      if (!suits_all) break;
    }
    if (suits_all) return algorithm;
  }
  return absl::UnimplementedError(absl::StrCat(
      "cuBLASLt has no algorithm for every number of tokens of a linear layer "
      "of ",
      options_.inputs, " inputs and ", options_.outputs, " outputs"));
}

absl::Status LinearLayer::Launch(const cublasLtMatmulAlgo_t& algorithm,
                                 const void* x, const void* weight, void* y,
                                 cudaStream_t stream) {
  const float one = 1.0f;
  const float zero = 0.0f;
  return context_->lt().Check(
      context_->lt().matmul(context_->handle(), desc_->matmul, &one, weight,
                            desc_->weight, x, desc_->x, &zero, y, desc_->y, y,
                            desc_->y, &algorithm, context_->workspace(),
                            static_cast<size_t>(context_->workspace_bytes()),
                            stream),
      "cublasLtMatmul");
}

absl::Status LinearLayer::Tune(absl::Span<const void* const> weights,
                               const void* x, void* y, cudaStream_t stream,
                               const Algorithms& known) {
  if (options_.batch_invariant) return absl::OkStatus();
  int64_t fewest = 1;
  for (Bucket& bucket : buckets_) {
    bool suits = false;
    const auto algorithm = known.find(bucket.tokens);
    if (algorithm != known.end()) {
      ASSIGN_OR_RETURN(suits, Suits(algorithm->second, bucket.tokens));
    }
    if (suits) {
      bucket.algorithm = algorithm->second;
    } else {
      RETURN_IF_ERROR(TuneBucket(weights, x, y, stream, fewest, bucket));
    }
    fewest = bucket.tokens + 1;
  }
  return absl::OkStatus();
}

LinearLayer::Algorithms LinearLayer::algorithms() const {
  Algorithms algorithms;
  for (const Bucket& bucket : buckets_) {
    algorithms[bucket.tokens] = bucket.algorithm;
  }
  return algorithms;
}

absl::Status LinearLayer::TuneBucket(absl::Span<const void* const> weights,
                                     const void* x, void* y,
                                     cudaStream_t stream, int64_t fewest,
                                     Bucket& bucket) {
  ASSIGN_OR_RETURN(const std::vector<cublasLtMatmulAlgo_t> candidates,
                   Candidates(bucket.tokens, kCandidates));
  ASSIGN_OR_RETURN(const CudaEvent begin, CudaEvent::Create());
  ASSIGN_OR_RETURN(const CudaEvent end, CudaEvent::Create());
  const int rounds = bucket.tokens > kManyTokens ? 1 : kTimedRounds;
  size_t next = 0;
  // With the fewest tokens of the bucket and the most: two that are as fast
  // with the most can be far apart where the last tile is nearly empty.
  const auto launch_both =
      [&](const cublasLtMatmulAlgo_t& algorithm) -> absl::Status {
    for (const int64_t tokens : {fewest, bucket.tokens}) {
      RETURN_IF_ERROR(SetTokens(tokens));
      RETURN_IF_ERROR(
          Launch(algorithm, x, weights[next++ % weights.size()], y, stream));
    }
    return absl::OkStatus();
  };
  std::vector<Tried> tried;
  for (const cublasLtMatmulAlgo_t& algorithm : candidates) {
    // Loads the kernel; one that refuses is no candidate.
    if (launch_both(algorithm).ok()) tried.push_back({&algorithm, {}});
  }
  // In turns, so that a clock that drifts slows all of them alike.
  for (int turn = 0; turn < kTimings; ++turn) {
    const double least = LeastMedian(tried);
    for (Tried& one : tried) {
      // One that is far behind needs no more.
      if (turn > 0 && MedianOf(one) > kFarBehind * least) continue;
      RETURN_IF_ERROR(begin.Record(stream));
      for (int i = 0; i < rounds; ++i) {
        RETURN_IF_ERROR(launch_both(*one.algorithm));
      }
      RETURN_IF_ERROR(end.Record(stream));
      ASSIGN_OR_RETURN(const float milliseconds, end.WaitSince(begin));
      one.milliseconds.push_back(milliseconds);
    }
  }
  // Of those that are as fast, cuBLASLt's own favourite: the choice must not
  // hang on noise, or no two processes would take the same time.
  const double least = LeastMedian(tried);
  for (const Tried& one : tried) {
    if (MedianOf(one) > kAsFast * least) continue;
    bucket.algorithm = *one.algorithm;
    break;
  }
  return absl::OkStatus();
}

absl::Status LinearLayer::Run(const void* x, const void* weight, int64_t tokens,
                              void* y, cudaStream_t stream) {
  RETURN_IF_ERROR(SetTokens(tokens));
  const auto bucket =
      std::lower_bound(buckets_.begin(), buckets_.end(), tokens,
                       [](const Bucket& b, int64_t n) { return b.tokens < n; });
  if (bucket == buckets_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a linear layer of at most ", options_.max_tokens,
                     " tokens was given ", tokens));
  }
  return Launch(bucket->algorithm, x, weight, y, stream);
}

}  // namespace interleave::sim
