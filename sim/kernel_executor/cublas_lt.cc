#include "sim/kernel_executor/cublas_lt.h"

#include <dlfcn.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace interleave::sim {
namespace {

constexpr const char* kLibraries[] = {
    "libcublasLt.so.13",
    "/usr/local/cuda/lib64/libcublasLt.so.13",
    "libcublasLt.so.12",
    "/usr/local/cuda/lib64/libcublasLt.so.12",
};

// Stays loaded until the process ends: handles may be alive until then.
void* OpenLibrary() {
  for (const char* name : kLibraries) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

absl::StatusOr<CublasLt> Load() {
  void* library = OpenLibrary();
  if (library == nullptr) {
    return absl::FailedPreconditionError(
        "libcublasLt.so.13, which linear layers need, is neither on the "
        "loader's path nor in /usr/local/cuda/lib64; install CUDA 13 or name "
        "its folder in LD_LIBRARY_PATH");
  }
  CublasLt lt = {};
  const bool found =
      Find(library, "cublasLtCreate", &lt.create) &&
      Find(library, "cublasLtDestroy", &lt.destroy) &&
      Find(library, "cublasLtGetVersion", &lt.version) &&
      Find(library, "cublasLtGetStatusString", &lt.status_string) &&
      Find(library, "cublasLtMatmul", &lt.matmul) &&
      Find(library, "cublasLtMatmulAlgoCheck", &lt.algo_check) &&
      Find(library, "cublasLtMatmulAlgoGetHeuristic", &lt.algo_get_heuristic) &&
      Find(library, "cublasLtMatmulDescCreate", &lt.desc_create) &&
      Find(library, "cublasLtMatmulDescDestroy", &lt.desc_destroy) &&
      Find(library, "cublasLtMatmulDescSetAttribute", &lt.desc_set) &&
      Find(library, "cublasLtMatrixLayoutCreate", &lt.layout_create) &&
      Find(library, "cublasLtMatrixLayoutDestroy", &lt.layout_destroy) &&
      Find(library, "cublasLtMatrixLayoutSetAttribute", &lt.layout_set) &&
      Find(library, "cublasLtMatmulPreferenceCreate", &lt.preference_create) &&
      Find(library, "cublasLtMatmulPreferenceDestroy",
           &lt.preference_destroy) &&
      Find(library, "cublasLtMatmulPreferenceSetAttribute", &lt.preference_set);
  if (found) return lt;
  return absl::FailedPreconditionError(
      absl::StrCat("libcublasLt: ", dlerror(), "; install CUDA 13"));
}

}  // namespace

absl::Status CublasLt::Check(cublasStatus_t status,
                             absl::string_view call) const {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(call, ": ", status_string(status)));
}

absl::StatusOr<const CublasLt*> LoadCublasLt() {
  static const absl::StatusOr<CublasLt>* const loaded =
      new absl::StatusOr<CublasLt>(Load());
  if (!loaded->ok()) return loaded->status();
  return &**loaded;
}

}  // namespace interleave::sim
