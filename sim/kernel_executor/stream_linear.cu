#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>
#include <cstring>
#include <cuda/ptx>

#include "attention/hopper/primitives.cuh"
#include "attention/hopper/wgmma.cuh"
#include "attention/kernel_launch.cuh"
#include "sim/kernel_executor/stream_linear.h"

namespace interleave::sim {
namespace {

namespace ptx = cuda::ptx;

using attention::AllowNextLaunch;
using attention::AwaitEarlierLaunch;
using attention::hopper::BarrierArrive;
using attention::hopper::BarrierArriveExpect;
using attention::hopper::BarrierInit;
using attention::hopper::BarrierInitFence;
using attention::hopper::BarrierWait;
using attention::hopper::kKMajorStep;
using attention::hopper::KMajorDescriptor;
using attention::hopper::PinRegisters;
using attention::hopper::SharedAddress;
using attention::hopper::WgmmaCommit;
using attention::hopper::WgmmaFence;
using attention::hopper::WgmmaSs;
using attention::hopper::WgmmaWait;

constexpr int kPanel = 64;  // columns of a unit: 128 bytes, one swizzle row
constexpr int kGroupThreads = 128;
constexpr int kGroupRows = 64;  // of W, of one warpgroup
constexpr int kGroups = kStreamRows / kGroupRows;
constexpr int kConsumers = kGroups * kGroupThreads;
constexpr int kThreads = kConsumers + 2 * 32;  // and two warps that copy
constexpr int kWeightBytes = kStreamRows * kPanel * 2;  // of a unit

// Units of W that are on their way to a multiprocessor at a time: as many as
// keep memory busy. With more, whatever else is asked of the L2 cache waits in
// line behind them: the tokens' columns and, while weights are copied ahead,
// all that the small kernels read. So there are fewer of them then.
constexpr int kUnitsInFlight = 4;
constexpr int kUnitsInFlightAhead = 2;

// The two rings of stages in shared memory, beside which there is room for
// blocks of the small kernels before and after. As much of W as fits is copied
// ahead; the tokens' columns come from the L2 cache, for which fewer stages do.
template <int kTokens>
struct Rings {
  static constexpr int kBytes = 216 * 1024;
  static constexpr int kTokenBytes = kTokens * kPanel * 2;
  static constexpr int kWeightStages = kTokens == 64 ? 11 : 12;
  static constexpr int kTokenStages =
      (kBytes - kWeightStages * kWeightBytes) / kTokenBytes;
  static constexpr int kBarriers = 2 * (kWeightStages + kTokenStages) + 1;
  static constexpr int kDynamicBytes = 1024 + kBytes + 8 * kBarriers;
};

// A box of what is read once, which leaves the L2 cache to the rest.
__device__ __forceinline__ void CopyBoxOnce(void* smem, const CUtensorMap* map,
                                            int32_t column, int32_t row,
                                            uint64_t* barrier) {
  // What createpolicy.fractional.L2::evict_first makes of the whole.
  constexpr uint64_t kEvictFirst = 0x12f0000000000000;
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::"
      "bytes.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(
          SharedAddress(smem)),
      "l"(map), "r"(column), "r"(row), "r"(SharedAddress(barrier)),
      "l"(kEvictFirst)
      : "memory");
}

__device__ __forceinline__ void CopyBox(void* smem, const CUtensorMap* map,
                                        int32_t column, int32_t row,
                                        uint64_t* barrier) {
  const int32_t at[2] = {column, row};
  ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, smem, map,
                            at, barrier);
}

struct Ring {
  uint64_t* full;
  uint64_t* empty;
  char* stages;
};

// A place in a ring of kDepth stages, and the parity of its round.
template <int kDepth>
struct Turn {
  int stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void Next() {
    if (++stage < kDepth) return;
    stage = 0;
    parity ^= 1;
  }
};

// The weights do not depend on the launches before this one, so the ring is
// filled with them before those have ended, of which `begun` tells.
template <int kTokens>
__device__ void CopyWeights(const CUtensorMap* map, const StreamSplit& split,
                            int begin, int end, const Ring& ring,
                            uint64_t* begun) {
  Turn<Rings<kTokens>::kWeightStages> turn;
  Turn<Rings<kTokens>::kWeightStages> next_to_come;
  int come = begin;
  for (int unit = begin; unit < end; ++unit) {
    BarrierWait(&ring.empty[turn.stage], turn.parity ^ 1);
    while (unit - come >= (ptx::mbarrier_test_wait_parity(begun, 0)
                               ? kUnitsInFlight
                               : kUnitsInFlightAhead)) {
      BarrierWait(&ring.full[next_to_come.stage], next_to_come.parity);
      next_to_come.Next();
      ++come;
    }
    uint64_t* const full = &ring.full[turn.stage];
    BarrierArriveExpect(full, kWeightBytes);
    const int tile = unit / split.units_per_tile;
    CopyBoxOnce(ring.stages + turn.stage * kWeightBytes, map,
                (unit - tile * split.units_per_tile) * kPanel,
                tile * kStreamRows, full);
    turn.Next();
  }
}

template <int kTokens>
__device__ void CopyTokens(const CUtensorMap* map, const StreamSplit& split,
                           int begin, int end, const Ring& ring,
                           uint64_t* begun) {
  constexpr int kBytes = Rings<kTokens>::kTokenBytes;
  Turn<Rings<kTokens>::kTokenStages> turn;
  AwaitEarlierLaunch();
  BarrierArrive(begun);
  for (int unit = begin; unit < end; ++unit) {
    BarrierWait(&ring.empty[turn.stage], turn.parity ^ 1);
    uint64_t* const full = &ring.full[turn.stage];
    BarrierArriveExpect(full, kBytes);
    CopyBox(ring.stages + turn.stage * kBytes, map,
            unit % split.units_per_tile * kPanel, 0, full);
    turn.Next();
  }
}

// Stores what the next kernel reads so that it stays in the L2 cache until
// then, whatever streams by.
__device__ __forceinline__ void StoreToKeep(float* p, float x) {
  // What createpolicy.fractional.L2::evict_last makes of the whole.
  constexpr uint64_t kEvictLast = 0x14f0000000000000;
  asm volatile("st.global.L2::cache_hint.f32 [%0], %1, %2;" ::"l"(p), "f"(x),
               "l"(kEvictLast)
               : "memory");
}

// Thread t of a warpgroup holds, of D's 64 rows and kTokens columns, the rows
// 16 (t / 32) + t % 32 / 4 + {0, 8} and the columns 8 i + 2 (t % 4) + {0, 1}.
template <int kTokens>
__device__ void Store(const float (&d)[kTokens / 2], const StreamSplit& split,
                      int tile, int tokens, float* partials) {
  const int thread = threadIdx.x % kGroupThreads;
  const int slot = blockIdx.x - split.FirstBlock(tile);
  const int row = tile * kStreamRows +
                  threadIdx.x / kGroupThreads * kGroupRows + thread / 32 * 16 +
                  thread % 32 / 4;
  float* out = partials + slot * split.slot_stride + row;
#pragma unroll
  for (int i = 0; i < kTokens / 8; ++i) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int token = 8 * i + 2 * (thread % 4) + c;
      if (token >= tokens) continue;
      float* place = out + int64_t{token} * split.outputs;
      StoreToKeep(place, d[4 * i + c]);
      StoreToKeep(place + 8, d[4 * i + 2 + c]);
    }
  }
}

template <int kTokens>
__device__ void Consume(const StreamSplit& split, int begin, int end,
                        int tokens, const Ring& weights, const Ring& x,
                        float* partials) {
  const int group = __shfl_sync(0xffffffffu, threadIdx.x / kGroupThreads, 0);
  const bool leader = threadIdx.x % kGroupThreads == 0;
  const auto release = [&](int weight_stage, int x_stage) {
    if (!leader) return;
    BarrierArrive(&weights.empty[weight_stage]);
    BarrierArrive(&x.empty[x_stage]);
  };
  const uint32_t weight_stages =
      SharedAddress(weights.stages) + group * kGroupRows * kPanel * 2;
  const uint32_t x_stages = SharedAddress(x.stages);
  float d[kTokens / 2];
  Turn<Rings<kTokens>::kWeightStages> weight_turn;
  Turn<Rings<kTokens>::kTokenStages> x_turn;
  for (int unit = begin; unit < end;) {
    const int tile = unit / split.units_per_tile;
    const int tile_end = min(end, (tile + 1) * split.units_per_tile);
    int weight_before = 0;
    int x_before = 0;
    for (int first = unit; unit < tile_end; ++unit) {
      BarrierWait(&weights.full[weight_turn.stage], weight_turn.parity);
      BarrierWait(&x.full[x_turn.stage], x_turn.parity);
      const uint64_t a =
          KMajorDescriptor(weight_stages + weight_turn.stage * kWeightBytes);
      const uint64_t b = KMajorDescriptor(
          x_stages + x_turn.stage * Rings<kTokens>::kTokenBytes);
      PinRegisters(d);
      WgmmaFence();
#pragma unroll
      for (int k = 0; k < kPanel / 16; ++k) {
        WgmmaSs<__nv_bfloat16, kTokens>::Issue(
            d, a + k * kKMajorStep, b + k * kKMajorStep, k > 0 || unit > first);
      }
      WgmmaCommit();
      WgmmaWait<1>();
      PinRegisters(d);
      // The products before these are done with their stages.
      if (unit > first) release(weight_before, x_before);
      weight_before = weight_turn.stage;
      x_before = x_turn.stage;
      weight_turn.Next();
      x_turn.Next();
    }
    WgmmaWait<0>();
    PinRegisters(d);
    release(weight_before, x_before);
    Store<kTokens>(d, split, tile, tokens, partials);
  }
}

// By one thread.
__device__ __forceinline__ void InitBarriers(const Ring& ring, int stages) {
  for (int i = 0; i < stages; ++i) {
    BarrierInit(&ring.full[i], 1);
    BarrierInit(&ring.empty[i], kGroups);
  }
}

// The bounds leave registers to the small kernels' blocks.
template <int kTokens>
__global__ void __launch_bounds__(kThreads, 3)
    StreamLinearKernel(const __grid_constant__ CUtensorMap weight_map,
                       const __grid_constant__ CUtensorMap x_map,
                       const StreamSplit split, int tokens, float* partials) {
  // Whoever comes next waits for this launch's end on its own.
  AllowNextLaunch();
  extern __shared__ char shared[];
  using Depths = Rings<kTokens>;
  Ring weights;
  Ring x;
  const uint32_t misaligned = SharedAddress(shared) % 1024;
  weights.stages = shared + (1024 - misaligned) % 1024;
  x.stages = weights.stages + Depths::kWeightStages * kWeightBytes;
  weights.full = reinterpret_cast<uint64_t*>(weights.stages + Depths::kBytes);
  weights.empty = weights.full + Depths::kWeightStages;
  x.full = weights.empty + Depths::kWeightStages;
  x.empty = x.full + Depths::kTokenStages;
  uint64_t* const begun = x.empty + Depths::kTokenStages;
  if (threadIdx.x == 0) {
    InitBarriers(weights, Depths::kWeightStages);
    InitBarriers(x, Depths::kTokenStages);
    BarrierInit(begun, 1);
    BarrierInitFence();
  }
  __syncthreads();
  const int begin = split.FirstUnit(blockIdx.x);
  const int end = split.FirstUnit(blockIdx.x + 1);
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
  if (warp < kConsumers / 32) {
    Consume<kTokens>(split, begin, end, tokens, weights, x, partials);
  } else if (threadIdx.x == kConsumers) {
    CopyWeights<kTokens>(&weight_map, split, begin, end, weights, begun);
  } else if (threadIdx.x == kConsumers + 32) {
    CopyTokens<kTokens>(&x_map, split, begin, end, x, begun);
  }
}

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

// The driver's entry, found at run time so that nothing links to libcuda.
cudaError_t FindEncodeTiled(EncodeTiled* encode) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult result;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(
      "cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &result);
  if (error != cudaSuccess) return error;
  if (result != cudaDriverEntryPointSuccess) return cudaErrorNotSupported;
  *encode = reinterpret_cast<EncodeTiled>(entry);
  return cudaSuccess;
}

template <int kTokens>
cudaError_t Launch(const StreamOperand& x, const StreamOperand& weight,
                   const StreamSplit& split, int tokens, float* partials,
                   bool early, cudaStream_t stream) {
  CUtensorMap maps[2];
  static_assert(sizeof(maps[0]) == sizeof(x.map));
  memcpy(&maps[0], weight.map, sizeof(maps[0]));
  memcpy(&maps[1], x.map, sizeof(maps[1]));
  return attention::LaunchKernel(
      StreamLinearKernel<kTokens>,
      {.grid = dim3(static_cast<unsigned>(split.blocks)),
       .threads = kThreads,
       .shared_bytes = Rings<kTokens>::kDynamicBytes,
       .early = early},
      stream, maps[0], maps[1], split, tokens, partials);
}

}  // namespace

cudaError_t MakeStreamOperand(const void* data, int64_t rows, int64_t columns,
                              int32_t box_rows, StreamOperand* operand) {
  EncodeTiled encode = nullptr;
  if (const cudaError_t error = FindEncodeTiled(&encode);
      error != cudaSuccess) {
    return error;
  }
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(columns),
                               static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(columns) * 2};
  const cuuint32_t box[2] = {kPanel, static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  CUtensorMap map;
  const CUresult result =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void*>(data),
             sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) return cudaErrorInvalidValue;
  memcpy(operand->map, &map, sizeof(map));
  return cudaSuccess;
}

cudaError_t LaunchStreamLinear(const StreamOperand& x,
                               const StreamOperand& weight,
                               const StreamSplit& split, int64_t tokens,
                               float* partials, bool early,
                               cudaStream_t stream) {
  const int n = static_cast<int>(tokens);
  switch (StreamTokens(tokens)) {
    case 16:
      return Launch<16>(x, weight, split, n, partials, early, stream);
    case 32:
      return Launch<32>(x, weight, split, n, partials, early, stream);
    case 64:
      return Launch<64>(x, weight, split, n, partials, early, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace interleave::sim
