// Small wrappers that both kernel roles share: shared-memory barriers, bulk
// tensor copies, cp.async, mma.sync and a few scalar helpers.

#ifndef ATTENTION_HOPPER_PRIMITIVES_CUH_
#define ATTENTION_HOPPER_PRIMITIVES_CUH_

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cuda/ptx>

namespace interleave::attention::hopper {

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;
constexpr float kNegativeInfinity = -__builtin_huge_valf();

__device__ __forceinline__ uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// ---- Barriers in shared memory.

__device__ __forceinline__ void BarrierInit(uint64_t* barrier,
                                            uint32_t arrivals) {
  cuda::ptx::mbarrier_init(barrier, arrivals);
}

// Makes the initialised barriers visible to the bulk copy engine.
__device__ __forceinline__ void BarrierInitFence() {
  cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release,
                                 cuda::ptx::scope_cluster);
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
}

__device__ __forceinline__ void BarrierWait(uint64_t* barrier,
                                            uint32_t parity) {
  while (!cuda::ptx::mbarrier_try_wait_parity(barrier, parity)) {
  }
}

__device__ __forceinline__ void BarrierArrive(uint64_t* barrier) {
  cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                             cuda::ptx::space_shared, barrier);
}

__device__ __forceinline__ void BarrierArriveExpect(uint64_t* barrier,
                                                    uint32_t bytes) {
  cuda::ptx::mbarrier_arrive_expect_tx(cuda::ptx::sem_release,
                                       cuda::ptx::scope_cta,
                                       cuda::ptx::space_shared, barrier, bytes);
}

// The barrier's count must include this thread: it arrives once all earlier
// cp.async of the thread have landed.
__device__ __forceinline__ void BarrierArriveAfterCopies(uint64_t* barrier) {
  cuda::ptx::cp_async_mbarrier_arrive_noinc(barrier);
}

// ---- Hardware barriers with a name, 1 to 15; 0 is __syncthreads.

__device__ __forceinline__ void NamedBarrierSync(int name, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

__device__ __forceinline__ void NamedBarrierArrive(int name, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

// Orders this thread's ordinary shared-memory accesses before later ones by
// the tensor cores and the copy engine.
__device__ __forceinline__ void FenceAsyncProxy() {
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
}

// ---- Copies.

// One box of a 4-D tensor; coordinates innermost first.
__device__ __forceinline__ void CopyBox(void* smem, const CUtensorMap* map,
                                        int32_t c0, int32_t c1, int32_t c2,
                                        int32_t c3, uint64_t* barrier) {
  const int32_t coordinates[4] = {c0, c1, c2, c3};
  cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster,
                                  cuda::ptx::space_global, smem, map,
                                  coordinates, barrier);
}

__device__ __forceinline__ void PrefetchMap(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// 16 bytes; valid == false writes zeros and reads nothing.
__device__ __forceinline__ void CopyAsync16(uint32_t smem, const void* global,
                                            bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile(
      "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(smem),
      "l"(global), "r"(bytes)
      : "memory");
}

__device__ __forceinline__ void CopyAsyncCommit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int kPending>
__device__ __forceinline__ void CopyAsyncWait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// ---- mma.sync.

__device__ __forceinline__ void LoadMatrices(uint32_t (&r)[4], uint32_t smem) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
      : "r"(smem)
      : "memory");
}

__device__ __forceinline__ void LoadMatricesTransposed(uint32_t (&r)[4],
                                                       uint32_t smem) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
      : "r"(smem)
      : "memory");
}

// D[16, 8] += A[16, 16] * B[16, 8].
template <typename T>
__device__ __forceinline__ void MmaSync(float (&d)[4], const uint32_t (&a)[4],
                                        uint32_t b0, uint32_t b1);

template <>
__device__ __forceinline__ void MmaSync<__nv_bfloat16>(float (&d)[4],
                                                       const uint32_t (&a)[4],
                                                       uint32_t b0,
                                                       uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void MmaSync<__half>(float (&d)[4],
                                                const uint32_t (&a)[4],
                                                uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---- Scalars.

// The value of lane 0, which the compiler then keeps in uniform registers.
__device__ __forceinline__ int Uniform(int x) {
  return __shfl_sync(0xFFFFFFFFu, x, 0);
}

__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Exact to a few units of the last place of 1, which tanh.approx is not.
__device__ __forceinline__ float Tanh(float x) {
  return 1.0f - __fdividef(2.0f, 1.0f + Exp2(2.0f * kLog2E * x));
}

template <typename T>
__device__ __forceinline__ uint32_t Pack(float low, float high);

template <>
__device__ __forceinline__ uint32_t Pack<__nv_bfloat16>(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

template <>
__device__ __forceinline__ uint32_t Pack<__half>(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// Over the four lanes that share a row of an accumulator.
__device__ __forceinline__ float QuadMax(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, 2));
}

__device__ __forceinline__ float QuadSum(float x) {
  x += __shfl_xor_sync(0xFFFFFFFFu, x, 1);
  return x + __shfl_xor_sync(0xFFFFFFFFu, x, 2);
}

}  // namespace interleave::attention::hopper

#endif  // ATTENTION_HOPPER_PRIMITIVES_CUH_
