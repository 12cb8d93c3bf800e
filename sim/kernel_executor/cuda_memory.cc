#include "sim/kernel_executor/cuda_memory.h"

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace interleave::sim {

absl::Status CudaStatus(cudaError_t error, absl::string_view call) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string message =
      absl::StrCat(call, ": ", cudaGetErrorString(error));
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // it is reported here, not by the next launch
    return absl::ResourceExhaustedError(message);
  }
  return absl::InternalError(message);
}

absl::StatusOr<int> DeviceAttribute(cudaDeviceAttr attribute, int device) {
  int value = 0;
  RETURN_IF_ERROR(CudaStatus(cudaDeviceGetAttribute(&value, attribute, device),
                             "cudaDeviceGetAttribute"));
  return value;
}

absl::StatusOr<CudaStream> CreateStream() {
  cudaStream_t stream = nullptr;
  RETURN_IF_ERROR(
      CudaStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                 "cudaStreamCreateWithFlags"));
  return CudaStream(stream);
}

absl::StatusOr<DeviceMemory> AllocateDevice(int64_t bytes,
                                            absl::string_view what) {
  void* memory = nullptr;
  RETURN_IF_ERROR(
      CudaStatus(cudaMalloc(&memory, static_cast<size_t>(bytes)),
                 absl::StrCat("allocating ", bytes, " bytes for ", what)));
  return DeviceMemory(memory);
}

absl::StatusOr<PinnedMemory> AllocatePinned(int64_t bytes,
                                            absl::string_view what) {
  void* memory = nullptr;
  RETURN_IF_ERROR(CudaStatus(
      cudaHostAlloc(&memory, static_cast<size_t>(bytes), cudaHostAllocMapped),
      absl::StrCat("allocating ", bytes, " bytes of host memory for ", what)));
  return PinnedMemory(memory);
}

absl::StatusOr<CudaEvent> CudaEvent::Create() {
  cudaEvent_t event = nullptr;
  RETURN_IF_ERROR(CudaStatus(cudaEventCreate(&event), "cudaEventCreate"));
  CudaEvent owner;
  owner.event_ = CudaOwner<cudaEvent_t, &cudaEventDestroy>(event);
  return owner;
}

absl::Status CudaEvent::Record(cudaStream_t stream) const {
  return CudaStatus(cudaEventRecord(event_.get(), stream), "cudaEventRecord");
}

absl::Status CudaEvent::RecordInGraph(cudaStream_t stream) const {
  return CudaStatus(
      cudaEventRecordWithFlags(event_.get(), stream, cudaEventRecordExternal),
      "cudaEventRecordWithFlags");
}

absl::Status CudaEvent::LetWait(cudaStream_t stream) const {
  return CudaStatus(cudaStreamWaitEvent(stream, event_.get(), 0),
                    "cudaStreamWaitEvent");
}

absl::StatusOr<float> CudaEvent::Since(const CudaEvent& begin) const {
  float milliseconds = 0;
  RETURN_IF_ERROR(CudaStatus(
      cudaEventElapsedTime(&milliseconds, begin.event_.get(), event_.get()),
      "cudaEventElapsedTime"));
  return milliseconds;
}

absl::StatusOr<float> CudaEvent::WaitSince(const CudaEvent& begin) const {
  RETURN_IF_ERROR(
      CudaStatus(cudaEventSynchronize(event_.get()), "cudaEventSynchronize"));
  return Since(begin);
}

}  // namespace interleave::sim
