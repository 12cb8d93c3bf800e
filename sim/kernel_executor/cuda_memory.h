// Owners of what CUDA hands out. Errors are Internal with the call's name and
// CUDA's words; memory that is not there is ResourceExhausted.

#ifndef SIM_KERNEL_EXECUTOR_CUDA_MEMORY_H_
#define SIM_KERNEL_EXECUTOR_CUDA_MEMORY_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cuda_runtime_api.h"

namespace interleave::sim {

absl::Status CudaStatus(cudaError_t error, absl::string_view call);

absl::StatusOr<int> DeviceAttribute(cudaDeviceAttr attribute, int device);

// Calls kDestroy on the handle when it goes.
template <typename Handle, cudaError_t (*kDestroy)(Handle)>
class CudaOwner {
 public:
  CudaOwner() = default;
  explicit CudaOwner(Handle handle) : handle_(handle) {}
  CudaOwner(CudaOwner&& other)
      : handle_(std::exchange(other.handle_, nullptr)) {}
  CudaOwner& operator=(CudaOwner&& other) {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~CudaOwner() {
    if (handle_ != nullptr) (void)kDestroy(handle_);  // nobody is left to tell
  }

  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};

using CudaStream = CudaOwner<cudaStream_t, &cudaStreamDestroy>;
using CudaGraph = CudaOwner<cudaGraph_t, &cudaGraphDestroy>;
using CudaGraphExec = CudaOwner<cudaGraphExec_t, &cudaGraphExecDestroy>;
using DeviceMemory = CudaOwner<void*, &cudaFree>;
using PinnedMemory = CudaOwner<void*, &cudaFreeHost>;

absl::StatusOr<CudaStream> CreateStream();
// `what` is for the message.
absl::StatusOr<DeviceMemory> AllocateDevice(int64_t bytes,
                                            absl::string_view what);
// Host memory that the device can read and write at its own address.
absl::StatusOr<PinnedMemory> AllocatePinned(int64_t bytes,
                                            absl::string_view what);

class CudaEvent {
 public:
  static absl::StatusOr<CudaEvent> Create();

  // In a stream that is being captured the record becomes a node of the graph.
  absl::Status Record(cudaStream_t stream) const;
  absl::Status RecordInGraph(cudaStream_t stream) const;
  // What is enqueued next waits for what was recorded last.
  absl::Status LetWait(cudaStream_t stream) const;
  // Milliseconds from `begin` to this event, both of them complete.
  absl::StatusOr<float> Since(const CudaEvent& begin) const;
  // Waits for this event first.
  absl::StatusOr<float> WaitSince(const CudaEvent& begin) const;

 private:
  CudaOwner<cudaEvent_t, &cudaEventDestroy> event_;
};

}  // namespace interleave::sim

#endif  // SIM_KERNEL_EXECUTOR_CUDA_MEMORY_H_
