#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>
#include <cstring>
#include <cuda/atomic>
#include <cuda/ptx>
#include <type_traits>

#include "attention/hopper/primitives.cuh"
#include "attention/hopper/wgmma.cuh"
#include "attention/kernel_launch.cuh"
#include "sim/kernel_executor/silu.cuh"
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
using attention::hopper::NamedBarrierSync;
using attention::hopper::Pack;
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

// What createpolicy.fractional makes of the whole, of L2::evict_first for what
// is read once, which leaves the L2 cache to the rest, and of L2::evict_last
// for what is read soon, so that it stays there whatever streams by.
constexpr uint64_t kEvictFirst = 0x12f0000000000000;
constexpr uint64_t kEvictLast = 0x14f0000000000000;

__device__ __forceinline__ void CopyBoxOnce(void* smem, const CUtensorMap* map,
                                            int32_t column, int32_t row,
                                            uint64_t* barrier) {
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

// The units of a tile that fall to a block.
struct TilePart {
  int tile;
  int end;      // the unit after the last
  bool begins;  // with the tile's first unit
};

__device__ __forceinline__ TilePart PartAt(const StreamSplit& split, int unit,
                                           int end) {
  const int tile = unit / split.units_per_tile;
  return {tile, min(end, (tile + 1) * split.units_per_tile),
          unit == tile * split.units_per_tile};
}

// Sums that blocks of one launch leave to each other: of a block's first tile
// where another has begun it, which that one reads.  They come to it by the
// ring of weights, in stages of their own.
template <int kTokens>
struct SharedSums {
  static constexpr int kBytes = kTokens * kStreamRows * 4;  // of a block
  static constexpr int kStages =
      kBytes > kWeightBytes ? kBytes / kWeightBytes : 1;
  static constexpr int kStageBytes = kBytes / kStages;
  // float4 of each thread.
  static constexpr int kVectors = kStageBytes / (16 * kConsumers);
  static_assert(kStageBytes <= kWeightBytes);

  __device__ static float4* Of(const GateUpScratch& scratch, int block) {
    return reinterpret_cast<float4*>(scratch.sums) + block * (kBytes / 16);
  }
};

using Ready = cuda::atomic_ref<int32_t, cuda::thread_scope_device>;

// One thread's: fills the ring of weights.
template <int kTokens>
class WeightCopier {
 public:
  __device__ WeightCopier(const Ring& ring, uint64_t* begun)
      : ring_(ring), begun_(begun) {}

  __device__ void CopyUnit(const CUtensorMap* map, const StreamSplit& split,
                           int tile, int unit) {
    const int stage = Await(kWeightBytes);
    CopyBoxOnce(ring_.stages + stage * kWeightBytes, map,
                (unit - tile * split.units_per_tile) * kPanel,
                tile * kStreamRows, &ring_.full[stage]);
  }

  // Waits until the block has left its sums, and clears its flags for the next
  // launch: not before earlier launches have ended, one of which may have the
  // same flags and still need them.
  __device__ void CopySums(const GateUpScratch& scratch, int block) {
    using Sums = SharedSums<kTokens>;
    BarrierWait(begun_, 0);
    for (int group = 0; group < kGroups; ++group) {
      Ready ready(scratch.ready[block * kGroups + group]);
      while (ready.load(cuda::memory_order_acquire) == 0) {
      }
      ready.store(0, cuda::memory_order_relaxed);
    }
    ptx::fence_proxy_async(ptx::space_global);
    const char* from = reinterpret_cast<const char*>(Sums::Of(scratch, block));
    for (int i = 0; i < Sums::kStages; ++i) {
      const int stage = Await(Sums::kStageBytes);
      ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global,
                         ring_.stages + stage * kWeightBytes,
                         from + i * Sums::kStageBytes, Sums::kStageBytes,
                         &ring_.full[stage]);
    }
  }

 private:
  // The next stage, once it is empty and few enough are on their way; so many
  // bytes will come.
  __device__ int Await(int bytes) {
    const int stage = turn_.stage;
    BarrierWait(&ring_.empty[stage], turn_.parity ^ 1);
    while (on_their_way_ >= (ptx::mbarrier_test_wait_parity(begun_, 0)
                                 ? kUnitsInFlight
                                 : kUnitsInFlightAhead)) {
      BarrierWait(&ring_.full[next_to_come_.stage], next_to_come_.parity);
      next_to_come_.Next();
      --on_their_way_;
    }
    BarrierArriveExpect(&ring_.full[stage], bytes);
    ++on_their_way_;
    turn_.Next();
    return stage;
  }

  const Ring& ring_;
  uint64_t* const begun_;
  Turn<Rings<kTokens>::kWeightStages> turn_;
  Turn<Rings<kTokens>::kWeightStages> next_to_come_;
  int on_their_way_ = 0;
};

// The weights do not depend on the launches before this one, so the ring is
// filled with them before those have ended, of which `begun` tells.
template <int kTokens, typename Outcome>
__device__ void CopyWeights(const CUtensorMap* map, const StreamSplit& split,
                            int begin, int end, const Ring& ring,
                            uint64_t* begun, const Outcome& outcome) {
  WeightCopier<kTokens> copier(ring, begun);
  for (int unit = begin; unit < end;) {
    const TilePart part = PartAt(split, unit, end);
    for (; unit < part.end; ++unit) {
      copier.CopyUnit(map, split, part.tile, unit);
    }
    outcome.CopyOthers(part, copier);
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

__device__ __forceinline__ void StoreToKeep(float* p, float x) {
  asm volatile("st.global.L2::cache_hint.f32 [%0], %1, %2;" ::"l"(p), "f"(x),
               "l"(kEvictLast)
               : "memory");
}

__device__ __forceinline__ void StoreToKeep(float4* p, const float4& x) {
  asm volatile(
      "st.global.L2::cache_hint.v4.f32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(p),
      "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w), "l"(kEvictLast)
      : "memory");
}

// Thread t of a warpgroup holds, of D's 64 rows and kTokens columns, the rows
// 16 (t / 32) + t % 32 / 4 + {0, 8} and the columns 8 i + 2 (t % 4) + {0, 1}.

// Leaves what a block has of a tile's sums to the next kernel.
template <int kTokens>
struct PartialSums {
  const StreamSplit& split;
  int tokens;
  float* partials;

  // Of other blocks' sums, of which it needs none.
  __device__ int Others(const TilePart& /*part*/) const { return 0; }
  __device__ void CopyOthers(const TilePart& /*part*/,
                             WeightCopier<kTokens>& /*copier*/) const {}

  __device__ void Finish(const TilePart& part,
                         const float (&d)[kTokens / 2]) const {
    const int thread = threadIdx.x % kGroupThreads;
    const int slot = blockIdx.x - split.FirstBlock(part.tile);
    const int row = part.tile * kStreamRows +
                    threadIdx.x / kGroupThreads * kGroupRows +
                    thread / 32 * 16 + thread % 32 / 4;
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
};

// SiLU(gate) x up of a tile. Rows of gate and up alternate by eight, so that a
// thread has the gate of a number in d[4 i + c] and its up in d[4 i + 2 + c].
template <int kTokens>
__device__ void StoreActivated(const float (&d)[kTokens / 2], int tile,
                               int group, int tokens, int width,
                               __nv_bfloat16* out) {
  static_assert(kGateUpRows == 8);
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x % kGroupThreads / 32;
  // Neighbours, 4 lanes apart, each take one token of their two numbers.
  const int odd = lane / 4 % 2;
  out += tile * (kStreamRows / 2) + group * (kGroupRows / 2) +
         warp * kGateUpRows + lane / 4 - odd;
#pragma unroll
  for (int i = 0; i < kTokens / 8; ++i) {
    float x[2];
#pragma unroll
    for (int c = 0; c < 2; ++c) x[c] = Silu(d[4 * i + c]) * d[4 * i + 2 + c];
    const float other = __shfl_xor_sync(0xffffffffu, odd ? x[0] : x[1], 4);
    const int token = 8 * i + 2 * (lane % 4) + odd;
    if (token >= tokens) continue;
    *reinterpret_cast<uint32_t*>(out + int64_t{token} * width) =
        odd ? Pack<__nv_bfloat16>(other, x[1])
            : Pack<__nv_bfloat16>(x[0], other);
  }
}

// The block that begins a tile adds up what those after it leave, and computes
// the activation. It comes to the tile at its end, and those after it at their
// beginning: where blocks have a tile's worth of units and more, nobody waits.
template <int kTokens>
struct Activation {
  const StreamSplit& split;
  int tokens;
  const GateUpScratch& scratch;
  __nv_bfloat16* out;

  __device__ int Others(const TilePart& part) const {
    return part.begins ? split.LastBlock(part.tile) - blockIdx.x : 0;
  }

  __device__ void CopyOthers(const TilePart& part,
                             WeightCopier<kTokens>& copier) const {
    const int others = Others(part);
    for (int i = 1; i <= others; ++i) copier.CopySums(scratch, blockIdx.x + i);
  }

  __device__ void Finish(const TilePart& part,
                         const float (&d)[kTokens / 2]) const {
    const int group = threadIdx.x / kGroupThreads;
    if (part.begins) {
      StoreActivated<kTokens>(d, part.tile, group, tokens, split.outputs / 2,
                              out);
    } else {
      Leave(group, d);
    }
  }

  // By the threads of a warpgroup.
  __device__ void Leave(int group, const float (&d)[kTokens / 2]) const {
    float4* sums = SharedSums<kTokens>::Of(scratch, blockIdx.x) + threadIdx.x;
#pragma unroll
    for (int i = 0; i < kTokens / 8; ++i) {
      StoreToKeep(&sums[i * kConsumers],
                  {d[4 * i], d[4 * i + 1], d[4 * i + 2], d[4 * i + 3]});
    }
    // The copy engine reads them.
    ptx::fence_proxy_async(ptx::space_global);
    NamedBarrierSync(1 + group, kGroupThreads);
    if (threadIdx.x % kGroupThreads != 0) return;
    Ready(scratch.ready[blockIdx.x * kGroups + group])
        .store(1, cuda::memory_order_release);
  }
};

// Adds to d what comes of so many other blocks.
template <int kTokens>
__device__ void AddOthers(int others, int group, const Ring& ring,
                          Turn<Rings<kTokens>::kWeightStages>& turn,
                          float (&d)[kTokens / 2]) {
  using Sums = SharedSums<kTokens>;
  for (int block = 0; block < others; ++block) {
#pragma unroll
    for (int stage = 0; stage < Sums::kStages; ++stage) {
      BarrierWait(&ring.full[turn.stage], turn.parity);
      const float4* sums = reinterpret_cast<const float4*>(
                               ring.stages + turn.stage * kWeightBytes) +
                           threadIdx.x;
#pragma unroll
      for (int i = 0; i < Sums::kVectors; ++i) {
        const float4 more = sums[i * kConsumers];
        float* to = &d[4 * (stage * Sums::kVectors + i)];
        to[0] += more.x;
        to[1] += more.y;
        to[2] += more.z;
        to[3] += more.w;
      }
      NamedBarrierSync(1 + group, kGroupThreads);
      if (threadIdx.x % kGroupThreads == 0) {
        BarrierArrive(&ring.empty[turn.stage]);
      }
      turn.Next();
    }
  }
}

// Products of the units of one tile after the other, for outcome to take.
template <int kTokens, typename Outcome>
__device__ void Consume(const StreamSplit& split, int begin, int end,
                        const Ring& weights, const Ring& x,
                        const Outcome& outcome) {
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
    const TilePart part = PartAt(split, unit, end);
    const int first = unit;
    int weight_before = 0;
    int x_before = 0;
    for (; unit < part.end; ++unit) {
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
    AddOthers<kTokens>(outcome.Others(part), group, weights, weight_turn, d);
    outcome.Finish(part, d);
  }
}

// By one thread.
__device__ __forceinline__ void InitBarriers(const Ring& ring, int stages) {
  for (int i = 0; i < stages; ++i) {
    BarrierInit(&ring.full[i], 1);
    BarrierInit(&ring.empty[i], kGroups);
  }
}

template <int kTokens, typename Outcome>
__device__ __forceinline__ void Stream(const CUtensorMap* weight_map,
                                       const CUtensorMap* x_map,
                                       const StreamSplit& split,
                                       const Outcome& outcome) {
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
    Consume<kTokens>(split, begin, end, weights, x, outcome);
  } else if (threadIdx.x == kConsumers) {
    CopyWeights<kTokens>(weight_map, split, begin, end, weights, begun,
                         outcome);
  } else if (threadIdx.x == kConsumers + 32) {
    CopyTokens<kTokens>(x_map, split, begin, end, x, begun);
  }
}

// The bounds leave registers to the small kernels' blocks.
template <int kTokens>
__global__ void __launch_bounds__(kThreads, 3)
    StreamLinearKernel(const __grid_constant__ CUtensorMap weight_map,
                       const __grid_constant__ CUtensorMap x_map,
                       const StreamSplit split, int tokens, float* partials) {
  Stream<kTokens>(&weight_map, &x_map, split,
                  PartialSums<kTokens>{split, tokens, partials});
}

template <int kTokens>
__global__ void __launch_bounds__(kThreads, 3)
    StreamGateUpKernel(const __grid_constant__ CUtensorMap weight_map,
                       const __grid_constant__ CUtensorMap x_map,
                       const StreamSplit split, int tokens,
                       const GateUpScratch scratch, __nv_bfloat16* out) {
  Stream<kTokens>(&weight_map, &x_map, split,
                  Activation<kTokens>{split, tokens, scratch, out});
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

// Arguments after the tensor maps and the split follow.
template <int kTokens, typename Kernel, typename... Arguments>
cudaError_t Launch(Kernel* kernel, const StreamOperand& x,
                   const StreamOperand& weight, const StreamSplit& split,
                   bool early, cudaStream_t stream,
                   const Arguments&... arguments) {
  CUtensorMap maps[2];
  static_assert(sizeof(maps[0]) == sizeof(x.map));
  memcpy(&maps[0], weight.map, sizeof(maps[0]));
  memcpy(&maps[1], x.map, sizeof(maps[1]));
  return attention::LaunchKernel(
      kernel,
      {.grid = dim3(static_cast<unsigned>(split.blocks)),
       .threads = kThreads,
       .shared_bytes = Rings<kTokens>::kDynamicBytes,
       .early = early},
      stream, maps[0], maps[1], split, arguments...);
}

// run(rows), which is a constant: the rows of x that the kernel reads.
template <typename Run>
cudaError_t ForTokens(int64_t tokens, const Run& run) {
  switch (StreamTokens(tokens)) {
    case 16:
      return run(std::integral_constant<int, 16>());
    case 32:
      return run(std::integral_constant<int, 32>());
    case 64:
      return run(std::integral_constant<int, 64>());
    default:
      return cudaErrorInvalidValue;
  }
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

int64_t GateUpSums(const StreamSplit& split) {
  return int64_t{split.blocks} * (SharedSums<kStreamTokens>::kBytes / 4);
}

int64_t GateUpReady(const StreamSplit& split) {
  return int64_t{split.blocks} * kGroups;
}

cudaError_t LaunchStreamLinear(const StreamOperand& x,
                               const StreamOperand& weight,
                               const StreamSplit& split, int64_t tokens,
                               float* partials, bool early,
                               cudaStream_t stream) {
  return ForTokens(tokens, [&](auto rows) {
    return Launch<rows>(StreamLinearKernel<rows>, x, weight, split, early,
                        stream, tokens, partials);
  });
}

cudaError_t LaunchStreamGateUp(const StreamOperand& x,
                               const StreamOperand& weight,
                               const StreamSplit& split, int64_t tokens,
                               const GateUpScratch& scratch, void* out,
                               bool early, cudaStream_t stream) {
  return ForTokens(tokens, [&](auto rows) {
    return Launch<rows>(StreamGateUpKernel<rows>, x, weight, split, early,
                        stream, tokens, scratch,
                        static_cast<__nv_bfloat16*>(out));
  });
}

}  // namespace interleave::sim
