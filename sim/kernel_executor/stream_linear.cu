#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>
#include <cstring>
#include <cuda/ptx>

#include "sim/kernel_executor/stream_linear.h"

namespace interleave::sim {
namespace {

namespace ptx = cuda::ptx;

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

__device__ __forceinline__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void Await(uint64_t* barrier, uint32_t parity) {
  while (!ptx::mbarrier_try_wait_parity(barrier, parity)) {
  }
}

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

// A tile of 64 columns (K) a row, in the 128-byte swizzle; PTX ISA, "matrix
// descriptor". 16 columns further is 32 bytes.
__device__ __forceinline__ uint64_t Descriptor(uint32_t address) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  constexpr uint64_t kEightRows = uint64_t{1024 >> 4} << 32;
  constexpr uint64_t kUnusedLeading = uint64_t{1} << 16;
  return kSwizzle128 | kEightRows | kUnusedLeading | ((address & 0x3ffff) >> 4);
}
constexpr uint64_t kDescriptorStep = 32 >> 4;

// D[64, kTokens] += A[64, 16] B[kTokens, 16]^T; accumulate == 0 overwrites D.
template <int kTokens>
__device__ __forceinline__ void Wgmma(float (&d)[kTokens / 2], uint64_t a,
                                      uint64_t b, int accumulate);

template <>
__device__ __forceinline__ void Wgmma<16>(float (&d)[8], uint64_t a, uint64_t b,
                                          int accumulate) {
  asm volatile(
      "{.reg .pred p;\n"
      "setp.ne.b32 p, %10, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7}, "
      "%8, %9, p, 1, 1, 0, 0;}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
        "+f"(d[6]), "+f"(d[7])
      : "l"(a), "l"(b), "r"(accumulate));
}

template <>
__device__ __forceinline__ void Wgmma<32>(float (&d)[16], uint64_t a,
                                          uint64_t b, int accumulate) {
  asm volatile(
      "{.reg .pred p;\n"
      "setp.ne.b32 p, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15}, "
      "%16, %17, p, 1, 1, 0, 0;}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
        "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]),
        "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
      : "l"(a), "l"(b), "r"(accumulate));
}

template <>
__device__ __forceinline__ void Wgmma<64>(float (&d)[32], uint64_t a,
                                          uint64_t b, int accumulate) {
  asm volatile(
      "{.reg .pred p;\n"
      "setp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, p, 1, 1, 0, 0;}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
        "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]),
        "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]),
        "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]),
        "+f"(d[31])
      : "l"(a), "l"(b), "r"(accumulate));
}

__device__ __forceinline__ void WgmmaFence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void WgmmaCommit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
__device__ __forceinline__ void WgmmaWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Keeps uses of accumulators on their side of a fence or a wait.
template <int kCount>
__device__ __forceinline__ void Pin(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
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

__device__ __forceinline__ void Arrive(uint64_t* barrier) {
  ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cta, ptx::space_shared,
                       barrier);
}

__device__ __forceinline__ void Expect(uint64_t* barrier, uint32_t bytes) {
  ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta,
                                 ptx::space_shared, barrier, bytes);
}

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
    Await(&ring.empty[turn.stage], turn.parity ^ 1);
    while (unit - come >= (ptx::mbarrier_test_wait_parity(begun, 0)
                               ? kUnitsInFlight
                               : kUnitsInFlightAhead)) {
      Await(&ring.full[next_to_come.stage], next_to_come.parity);
      next_to_come.Next();
      ++come;
    }
    uint64_t* const full = &ring.full[turn.stage];
    Expect(full, kWeightBytes);
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
  asm volatile("griddepcontrol.wait;" ::: "memory");
  Arrive(begun);
  for (int unit = begin; unit < end; ++unit) {
    Await(&ring.empty[turn.stage], turn.parity ^ 1);
    uint64_t* const full = &ring.full[turn.stage];
    Expect(full, kBytes);
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
    Arrive(&weights.empty[weight_stage]);
    Arrive(&x.empty[x_stage]);
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
      Await(&weights.full[weight_turn.stage], weight_turn.parity);
      Await(&x.full[x_turn.stage], x_turn.parity);
      const uint64_t a =
          Descriptor(weight_stages + weight_turn.stage * kWeightBytes);
      const uint64_t b =
          Descriptor(x_stages + x_turn.stage * Rings<kTokens>::kTokenBytes);
      Pin(d);
      WgmmaFence();
#pragma unroll
      for (int k = 0; k < kPanel / 16; ++k) {
        Wgmma<kTokens>(d, a + k * kDescriptorStep, b + k * kDescriptorStep,
                       k > 0 || unit > first);
      }
      WgmmaCommit();
      WgmmaWait<1>();
      Pin(d);
      // The products before these are done with their stages.
      if (unit > first) release(weight_before, x_before);
      weight_before = weight_turn.stage;
      x_before = x_turn.stage;
      weight_turn.Next();
      x_turn.Next();
    }
    WgmmaWait<0>();
    Pin(d);
    release(weight_before, x_before);
    Store<kTokens>(d, split, tile, tokens, partials);
  }
}

// By one thread.
__device__ __forceinline__ void InitBarriers(const Ring& ring, int stages) {
  for (int i = 0; i < stages; ++i) {
    ptx::mbarrier_init(&ring.full[i], 1);
    ptx::mbarrier_init(&ring.empty[i], kGroups);
  }
}

// The bounds leave registers to the small kernels' blocks.
template <int kTokens>
__global__ void __launch_bounds__(kThreads, 3)
    StreamLinearKernel(const __grid_constant__ CUtensorMap weight_map,
                       const __grid_constant__ CUtensorMap x_map,
                       const StreamSplit split, int tokens, float* partials) {
  // Whoever comes next waits for this launch's end on its own.
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
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
    ptx::mbarrier_init(begun, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::fence_proxy_async(ptx::space_shared);
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
  // Asked for at each launch: it is cheap, and counts for one device.
  constexpr int kDynamicBytes = Rings<kTokens>::kDynamicBytes;
  const cudaError_t error = cudaFuncSetAttribute(
      StreamLinearKernel<kTokens>, cudaFuncAttributeMaxDynamicSharedMemorySize,
      kDynamicBytes);
  if (error != cudaSuccess) return error;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(split.blocks));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = kDynamicBytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  CUtensorMap maps[2];
  static_assert(sizeof(maps[0]) == sizeof(x.map));
  memcpy(&maps[0], weight.map, sizeof(maps[0]));
  memcpy(&maps[1], x.map, sizeof(maps[1]));
  return cudaLaunchKernelEx(&config, StreamLinearKernel<kTokens>, maps[0],
                            maps[1], split, tokens, partials);
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
