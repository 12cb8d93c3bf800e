// The functions of cuBLASLt, looked up in its shared library at run time: it is
// half a gigabyte, and a program that runs no kernels should start without it.

#ifndef SIM_KERNEL_EXECUTOR_CUBLAS_LT_H_
#define SIM_KERNEL_EXECUTOR_CUBLAS_LT_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cublasLt.h"

namespace interleave::sim {

struct CublasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoCheck) algo_check;
  decltype(&cublasLtMatmulAlgoGetHeuristic) algo_get_heuristic;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;

  // OK, or Internal with the call's name and cuBLASLt's words.
  absl::Status Check(cublasStatus_t status, absl::string_view call) const;
};

// Loads the library once a process. FailedPrecondition says where it was looked
// for.
absl::StatusOr<const CublasLt*> LoadCublasLt();

}  // namespace interleave::sim

#endif  // SIM_KERNEL_EXECUTOR_CUBLAS_LT_H_
