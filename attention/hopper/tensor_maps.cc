#include "attention/hopper/tensor_maps.h"

#include <cstdint>
#include <numeric>

#include "attention/kernel_params.h"
#include "attention/params.h"
#include "cuda.h"
#include "cuda_runtime_api.h"

namespace interleave::attention::hopper {
namespace {

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

// The driver's entry, found at run time so that nothing links to libcuda.
cudaError_t FindEncodeTiled(EncodeTiled* encode) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult result;
  constexpr unsigned int kVersion = 12000;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(
      "cuTensorMapEncodeTiled", &entry, kVersion, cudaEnableDefault, &result);
  if (error != cudaSuccess) return error;
  if (result != cudaDriverEntryPointSuccess) return cudaErrorNotSupported;
  *encode = reinterpret_cast<EncodeTiled>(entry);
  return cudaSuccess;
}

// K or V as [block, head, row, column]; a contiguous tensor is one block.
struct View {
  const void* data;
  int64_t block_stride;
  int64_t token_stride;
  int64_t head_stride;
};

cudaError_t Encode(EncodeTiled encode, const KernelParams& params,
                   const View& view, int32_t box_rows, CUtensorMap* map) {
  constexpr uint64_t kElementBytes = 2;
  constexpr uint32_t kPanelColumns = 64;
  const bool paged = params.block_table != nullptr;
  const int64_t rows = paged ? params.page_size : params.total_k;
  const int64_t blocks = paged ? params.num_blocks : 1;
  const uint64_t sizes[4] = {static_cast<uint64_t>(params.head_dim),
                             static_cast<uint64_t>(rows),
                             static_cast<uint64_t>(params.num_kv_heads),
                             static_cast<uint64_t>(blocks)};
  // The stride of an axis of one element is never used, but it is checked.
  const auto bytes = [](int64_t stride, int64_t size) {
    return size > 1 ? static_cast<uint64_t>(stride) * kElementBytes
                    : uint64_t{16};
  };
  const uint64_t strides[3] = {bytes(view.token_stride, rows),
                               bytes(view.head_stride, params.num_kv_heads),
                               bytes(view.block_stride, blocks)};
  const uint32_t box[4] = {kPanelColumns, static_cast<uint32_t>(box_rows), 1,
                           1};
  const uint32_t steps[4] = {1, 1, 1, 1};
  const CUtensorMapDataType type = params.dtype == DataType::kBFloat16
                                       ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                       : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  const CUresult result = encode(
      map, type, 4, const_cast<void*>(view.data), sizes, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace

cudaError_t MakePrefillMaps(const KernelParams& params, int32_t key_tile,
                            PrefillMaps* maps) {
  constexpr int32_t kSwizzledRows = 8;
  *maps = PrefillMaps{};
  const bool paged = params.block_table != nullptr;
  const int32_t box_rows =
      paged ? std::gcd(params.page_size, key_tile) : key_tile;
  // Without keys nothing is copied either.
  const bool has_keys = paged ? params.num_blocks > 0 : params.total_k > 0;
  if (!has_keys || box_rows % kSwizzledRows != 0) return cudaSuccess;
  EncodeTiled encode;
  cudaError_t error = FindEncodeTiled(&encode);
  if (error != cudaSuccess) return error;
  error = Encode(encode, params,
                 {params.k, params.k_block_stride, params.k_token_stride,
                  params.k_head_stride},
                 box_rows, &maps->k);
  if (error != cudaSuccess) return error;
  error = Encode(encode, params,
                 {params.v, params.v_block_stride, params.v_token_stride,
                  params.v_head_stride},
                 box_rows, &maps->v);
  if (error != cudaSuccess) return error;
  maps->box_rows = box_rows;
  return cudaSuccess;
}

}  // namespace interleave::attention::hopper
