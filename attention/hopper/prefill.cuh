// The prefill role: tiles of 128 or 192 packed rows against keys and values
// that stay in pages (or contiguous), on the warpgroup tensor-core
// instructions.
//
// One producer warpgroup and two or three consumer warpgroups of 64 rows each.
// Of the producer, warp 1 takes work items and publishes them, warp 0 copies K
// and V by the bulk copy engine, in boxes that never straddle a page, and warps
// 2 and 3 copy Q. Page sizes that no box fits are gathered by cp.async of all
// four. K and V have two stages each in shared memory, with full and empty
// barriers.
//
// Consumers walk key tiles from the last to the first. For each they issue
// S(n) = Q K(n)^T and, behind it, O += P(n + 1) V(n + 1), so that the softmax
// of one tile runs under the product of the one before; the warpgroups take
// turns to issue, so that one's softmax also runs under the other's products.
// This overlap is that of FlashAttention-3 (Shah et al., 2024, section 3).

#ifndef ATTENTION_HOPPER_PREFILL_CUH_
#define ATTENTION_HOPPER_PREFILL_CUH_

#include <cstdint>

#include "attention/hopper/launch.h"
#include "attention/hopper/primitives.cuh"
#include "attention/hopper/softmax.cuh"
#include "attention/hopper/tensor_maps.h"
#include "attention/hopper/wgmma.cuh"
#include "attention/kernel_launch.cuh"
#include "attention/kernel_params.h"

namespace interleave::attention::hopper {

constexpr int kWarpgroup = 128;
constexpr int kStages = 2;
constexpr int kTicketSlots = 2;
constexpr int kQueryThreads = 64;  // warps 2 and 3 of the producer
constexpr int kTicketWarp = 2;     // of the producer

// What consumers need of a work item; rows < 0 ends the kernel.
struct alignas(16) PrefillTile {
  int32_t batch;
  int32_t kv_head;
  int32_t row_begin;
  int32_t row_count;
  int32_t kv_begin;
  int32_t kv_end;
  int32_t partial_row;
  int32_t q_begin;
  int32_t q_len;
  int32_t k_begin;
  int32_t k_len;
  int32_t unused;
};

template <typename T, int kHeadDim, int kKeyTile>
struct PrefillShared {
  static constexpr int kRows = PrefillTileRows(kHeadDim);
  // The next tile's queries arrive while a tile is computed, if they fit.
  static constexpr int kQueryStages =
      (2 * kRows + 2 * kStages * kKeyTile) * kHeadDim * 2 <= 220 * 1024 ? 2 : 1;
  alignas(1024) T q[kQueryStages][kRows * kHeadDim];
  alignas(1024) T k[kStages][kKeyTile * kHeadDim];
  alignas(1024) T v[kStages][kKeyTile * kHeadDim];
  uint64_t q_full[kQueryStages];
  uint64_t q_empty[kQueryStages];
  uint64_t k_full[kStages];
  uint64_t k_empty[kStages];
  uint64_t v_full[kStages];
  uint64_t v_empty[kStages];
  uint64_t ticket_full[kTicketSlots];
  uint64_t ticket_empty[kTicketSlots];
  PrefillTile tiles[kTicketSlots];
};

// Position in a ring of barriers.
template <int kSlots>
struct RingCursor {
  int slot = 0;
  uint32_t phase = 0;
  __device__ __forceinline__ void Advance() {
    if (++slot == kSlots) {
      slot = 0;
      phase ^= 1;
    }
  }
};

// Names of hardware barriers: the consumer warpgroups' turns (1 to 3), and one
// inside each of them (4 to 6).
constexpr int kTurnBarrier = 1;
constexpr int kInnerBarrier = 4;

template <typename T, int kHeadDim, int kKeyTile>
class Prefill {
 public:
  using Shared = PrefillShared<T, kHeadDim, kKeyTile>;
  static constexpr int kRows = Shared::kRows;
  static constexpr int kQueryStages = Shared::kQueryStages;
  static constexpr int kConsumers = kRows / 64;
  static constexpr int kThreads = kWarpgroup * (1 + kConsumers);
  static constexpr int kConsumerWarps = 4 * kConsumers;
  static constexpr int kPanels = kHeadDim / 64;
  static constexpr int kChunks = kHeadDim / 8;  // 16-byte chunks of a row
  static constexpr int kKeyPanelBytes = kKeyTile * 128;
  static constexpr int kSharedBytes = sizeof(Shared) + 1024;

  static __device__ __forceinline__ void Run(const KernelParams& params,
                                             const PrefillMaps& maps,
                                             uint8_t* raw) {
    Shared& shared = *reinterpret_cast<Shared*>(
        (reinterpret_cast<uintptr_t>(raw) + 1023) & ~uintptr_t{1023});
    const int warpgroup = Uniform(threadIdx.x / kWarpgroup);
    AllowNextLaunch();
    if (threadIdx.x == 0) InitBarriers(maps, shared);
    __syncthreads();
    if (warpgroup == 0) {
      LowerRegisters<kConsumers == 2 ? 40 : 32>();
      const int warp =
          __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0);
      if (maps.box_rows == 0) {
        ProduceByGather(params, shared, warp);
      } else if (warp == 0) {
        ProduceKeys(params, maps, shared);
      } else if (warp == 1) {
        ProduceValues(params, maps, shared);
      } else {
        ProduceQueries(params, shared, warp);
      }
    } else {
      RaiseRegisters<kConsumers == 2 ? 232 : 160>();
      Consume(params, maps.box_rows == 0, shared, warpgroup - 1);
    }
  }

 private:
  using QueryCursor = RingCursor<kQueryStages>;

  static __device__ __forceinline__ void InitBarriers(const PrefillMaps& maps,
                                                      Shared& shared) {
    const int writers = maps.box_rows == 0 ? kWarpgroup : 1;
    for (int s = 0; s < kQueryStages; ++s) {
      BarrierInit(&shared.q_full[s], kQueryThreads);
      BarrierInit(&shared.q_empty[s], kConsumerWarps);
    }
    for (int s = 0; s < kStages; ++s) {
      BarrierInit(&shared.k_full[s], writers);
      BarrierInit(&shared.k_empty[s], kConsumerWarps);
      BarrierInit(&shared.v_full[s], writers);
      BarrierInit(&shared.v_empty[s], kConsumerWarps);
    }
    for (int s = 0; s < kTicketSlots; ++s) {
      BarrierInit(&shared.ticket_full[s], 1);
      BarrierInit(&shared.ticket_empty[s], 32 * (kConsumerWarps + 3));
    }
    BarrierInitFence();
    if (maps.box_rows != 0) {
      PrefetchMap(&maps.k);
      PrefetchMap(&maps.v);
    }
  }

  // ---- Work items.

  // One warp of the producer hands items to everybody else.
  class TicketSource {
   public:
    // Only one warp may be active.
    __device__ __forceinline__ TicketSource(const KernelParams& params,
                                            bool active)
        : params_(params),
          count_(params.schedule.header
                     ->num_items[static_cast<int>(Role::kPrefill)]) {
      // A block's first ticket is its index.
      if (active) ticket_ = blockIdx.x;
    }

    // False when no items are left. Either way the tile is published.
    __device__ __forceinline__ bool Next(Shared& shared, PrefillTile* tile) {
      const int lane = threadIdx.x % 32;
      const int ticket = __shfl_sync(0xFFFFFFFFu, ticket_, 0);
      const bool more = ticket < count_;
      tile->row_count = -1;
      if (more) {
        const WorkItem item =
            params_.schedule.items[static_cast<int>(Role::kPrefill)][ticket];
        const SequenceInfo sequence = params_.schedule.sequences[item.batch];
        *tile = {item.batch,       item.kv_head,     item.row_begin,
                 item.row_count,   item.kv_begin,    item.kv_end,
                 item.partial_row, sequence.q_begin, sequence.q_len,
                 sequence.k_begin, sequence.k_len,   0};
      }
      BarrierWait(&shared.ticket_empty[cursor_.slot], cursor_.phase ^ 1);
      if (lane == 0) {
        shared.tiles[cursor_.slot] = *tile;
        BarrierArrive(&shared.ticket_full[cursor_.slot]);
      }
      cursor_.Advance();
      if (more) Draw();
      return more;
    }

    // The block that leaves last resets the counter for the next launch.
    __device__ __forceinline__ void Leave() {
      if (threadIdx.x % 32 != 0) return;
      WorkCounter& counter = Counter();
      __threadfence();
      if (atomicAdd(&counter.done, 1) == static_cast<int>(gridDim.x) - 1) {
        counter.next = 0;
        counter.done = 0;
      }
    }

   private:
    __device__ __forceinline__ WorkCounter& Counter() {
      return params_.schedule.counters[static_cast<int>(Role::kPrefill)];
    }
    __device__ __forceinline__ void Draw() {
      if (threadIdx.x % 32 == 0) {
        ticket_ = gridDim.x + atomicAdd(&Counter().next, 1);
      }
    }

    const KernelParams& params_;
    const int count_;
    int ticket_ = 0;
    RingCursor<kTicketSlots> cursor_;
  };

  // Everybody else's view of the same items.
  class TicketReader {
   public:
    __device__ __forceinline__ bool Next(Shared& shared, PrefillTile* tile) {
      BarrierWait(&shared.ticket_full[cursor_.slot], cursor_.phase);
      *tile = shared.tiles[cursor_.slot];
      // From one lane, so that the compiler knows them to be uniform.
      tile->kv_begin = Uniform(tile->kv_begin);
      tile->kv_end = Uniform(tile->kv_end);
      tile->k_len = Uniform(tile->k_len);
      tile->row_count = Uniform(tile->row_count);
      // Each thread for its own reads, which race detectors can follow.
      BarrierArrive(&shared.ticket_empty[cursor_.slot]);
      cursor_.Advance();
      return tile->row_count >= 0;
    }

   private:
    RingCursor<kTicketSlots> cursor_;
  };

  // ---- Producers.

  // Where a key's row is: its block (0 for contiguous keys) and row in it.
  struct KeyPlace {
    int32_t block;
    int32_t row;
  };

  static __device__ __forceinline__ KeyPlace Locate(const KernelParams& params,
                                                    const PrefillTile& tile,
                                                    int32_t key) {
    if (params.block_table == nullptr) return {0, tile.k_begin + key};
    const int32_t page = params.page_divisor.Divide(key);
    return {params.block_table[tile.batch * params.block_table_stride + page],
            key - page * params.page_size};
  }

  // Key tile n of K or V by the copy engine: lane i copies box i, if the box
  // has a key that exists and is not before the item's first.
  static __device__ __forceinline__ void CopyBoxes(
      const KernelParams& params, const PrefillTile& tile,
      const CUtensorMap& map, int box_rows, int n, T* destination,
      uint64_t* full, uint64_t* empty, uint32_t empty_parity) {
    const int lane = threadIdx.x % 32;
    const int row = lane * box_rows;
    const int key = n * kKeyTile + row;
    const bool mine =
        row < kKeyTile && key < tile.k_len && key + box_rows > tile.kv_begin;
    KeyPlace place = {0, 0};
    if (mine) place = Locate(params, tile, key);
    const uint32_t bytes = __popc(__ballot_sync(0xFFFFFFFFu, mine)) *
                           (box_rows * kHeadDim * sizeof(T));
    BarrierWait(empty, empty_parity);
    if (lane == 0) BarrierArriveExpect(full, bytes);
    __syncwarp();
    if (!mine) return;
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel) {
      CopyBox(destination + (panel * kKeyTile + row) * 64, &map, panel * 64,
              place.row, tile.kv_head, place.block, full);
    }
  }

  static __device__ void ProduceKeys(const KernelParams& params,
                                     const PrefillMaps& maps, Shared& shared) {
    TicketReader reader;
    RingCursor<kStages> cursor;
    PrefillTile tile;
    while (reader.Next(shared, &tile)) {
      if (tile.kv_begin >= tile.kv_end) continue;
      const int first = tile.kv_begin / kKeyTile;
      for (int n = (tile.kv_end - 1) / kKeyTile; n >= first; --n) {
        CopyBoxes(params, tile, maps.k, maps.box_rows, n, shared.k[cursor.slot],
                  &shared.k_full[cursor.slot], &shared.k_empty[cursor.slot],
                  cursor.phase ^ 1);
        cursor.Advance();
      }
    }
  }

  static __device__ void ProduceValues(const KernelParams& params,
                                       const PrefillMaps& maps,
                                       Shared& shared) {
    TicketReader reader;
    RingCursor<kStages> cursor;
    PrefillTile tile;
    while (reader.Next(shared, &tile)) {
      if (tile.kv_begin >= tile.kv_end) continue;
      const int first = tile.kv_begin / kKeyTile;
      for (int n = (tile.kv_end - 1) / kKeyTile; n >= first; --n) {
        CopyBoxes(params, tile, maps.v, maps.box_rows, n, shared.v[cursor.slot],
                  &shared.v_full[cursor.slot], &shared.v_empty[cursor.slot],
                  cursor.phase ^ 1);
        cursor.Advance();
      }
    }
  }

  // Copies Q's rows of a tile; for the threads of warps 2 and 3.
  static __device__ __forceinline__ void CopyQueries(const KernelParams& params,
                                                     const PrefillTile& tile,
                                                     Shared& shared,
                                                     QueryCursor& cursor) {
    BarrierWait(&shared.q_empty[cursor.slot], cursor.phase ^ 1);
    const int thread = threadIdx.x - (kWarpgroup - kQueryThreads);
    const int chunk = thread % kChunks;
    const T* q = static_cast<const T*>(params.q);
    const uint32_t smem =
        SharedAddress(shared.q[cursor.slot]) + (chunk / 8) * (kRows * 128);
#pragma unroll 4
    for (int row = thread / kChunks; row < kRows;
         row += kQueryThreads / kChunks) {
      const bool valid = row < tile.row_count;
      const int packed = tile.row_begin + (valid ? row : 0);
      const int token = params.group_divisor.Divide(packed);
      const int head =
          tile.kv_head * params.group_size + packed - token * params.group_size;
      CopyAsync16(smem + row * 128 + ((chunk % 8) ^ (row % 8)) * 16,
                  q + (tile.q_begin + token) * params.q_token_stride +
                      head * params.q_head_stride + chunk * 8,
                  valid);
    }
    BarrierArriveAfterCopies(&shared.q_full[cursor.slot]);
    cursor.Advance();
  }

  static __device__ void ProduceQueries(const KernelParams& params,
                                        Shared& shared, int warp) {
    TicketSource source(params, warp == kTicketWarp);
    TicketReader reader;
    PrefillTile tile;
    QueryCursor cursor;
    while (warp == kTicketWarp ? source.Next(shared, &tile)
                               : reader.Next(shared, &tile)) {
      if (tile.kv_begin >= tile.kv_end) continue;
      CopyQueries(params, tile, shared, cursor);
    }
    if (warp == kTicketWarp) source.Leave();
  }

  // One key tile of K or V by cp.async of all 128 threads. Rows outside the
  // item's keys are zeros.
  static __device__ __forceinline__ void GatherTile(
      const KernelParams& params, const PrefillTile& tile, const void* data,
      int64_t block_stride, int64_t token_stride, int64_t head_stride, int n,
      T* destination) {
    const int chunk = threadIdx.x % kChunks;
    const T* base =
        static_cast<const T*>(data) + tile.kv_head * head_stride + chunk * 8;
    const uint32_t smem =
        SharedAddress(destination) + (chunk / 8) * kKeyPanelBytes;
#pragma unroll 2
    for (int row = threadIdx.x / kChunks; row < kKeyTile;
         row += kWarpgroup / kChunks) {
      const int key = n * kKeyTile + row;
      bool valid = key >= tile.kv_begin && key < tile.kv_end;
      const T* source = base;
      if (valid) {
        const KeyPlace place = Locate(params, tile, key);
        valid = params.block_table == nullptr ||
                (place.block >= 0 && place.block < params.num_blocks);
        if (valid) {
          source += place.block * block_stride + place.row * token_stride;
        }
      }
      CopyAsync16(smem + row * 128 + ((chunk % 8) ^ (row % 8)) * 16, source,
                  valid);
    }
  }

  static __device__ void ProduceByGather(const KernelParams& params,
                                         Shared& shared, int warp) {
    TicketSource source(params, warp == kTicketWarp);
    TicketReader reader;
    RingCursor<kStages> k_cursor;
    RingCursor<kStages> v_cursor;
    PrefillTile tile;
    QueryCursor q_cursor;
    while (warp == kTicketWarp ? source.Next(shared, &tile)
                               : reader.Next(shared, &tile)) {
      if (tile.kv_begin >= tile.kv_end) continue;
      const int last = (tile.kv_end - 1) / kKeyTile;
      const int first = tile.kv_begin / kKeyTile;
      for (int n = last + 1; n >= first; --n) {
        if (n - 1 >= first) {
          BarrierWait(&shared.k_empty[k_cursor.slot], k_cursor.phase ^ 1);
          GatherTile(params, tile, params.k, params.k_block_stride,
                     params.k_token_stride, params.k_head_stride, n - 1,
                     shared.k[k_cursor.slot]);
          BarrierArriveAfterCopies(&shared.k_full[k_cursor.slot]);
          k_cursor.Advance();
        }
        if (n == last + 1 && warp >= 2) {
          CopyQueries(params, tile, shared, q_cursor);
        }
        if (n <= last) {
          BarrierWait(&shared.v_empty[v_cursor.slot], v_cursor.phase ^ 1);
          GatherTile(params, tile, params.v, params.v_block_stride,
                     params.v_token_stride, params.v_head_stride, n,
                     shared.v[v_cursor.slot]);
          BarrierArriveAfterCopies(&shared.v_full[v_cursor.slot]);
          v_cursor.Advance();
        }
      }
    }
    if (warp == kTicketWarp) source.Leave();
  }

  // ---- Consumers.

  static constexpr int kScores = kKeyTile / 2;
  static constexpr int kOutputs = kHeadDim / 2;

  static __device__ __forceinline__ void IssueScores(float (&s)[kScores],
                                                     uint32_t q, uint32_t k) {
    const uint64_t q_descriptor = KMajorDescriptor(q);
    const uint64_t k_descriptor = KMajorDescriptor(k);
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step) {
      const uint64_t inner = (step % 4) * kKMajorStep;
      WgmmaSs<T, kKeyTile>::Issue(
          s, q_descriptor + (step / 4) * uint64_t{kRows * 128 / 16} + inner,
          k_descriptor + (step / 4) * uint64_t{kKeyPanelBytes / 16} + inner,
          step > 0);
    }
  }

  static __device__ __forceinline__ void IssueOutputs(
      float (&o)[kOutputs], const uint32_t (&p)[kKeyTile / 16][4], uint32_t v) {
    const uint64_t descriptor = MnMajorDescriptor(v, kKeyPanelBytes);
#pragma unroll
    for (int step = 0; step < kKeyTile / 16; ++step) {
      WgmmaRs<T, kHeadDim>::Issue(o, p[step], descriptor + step * kMnMajorStep,
                                  1);
    }
  }

  static __device__ __forceinline__ void PackWeights(
      const float (&s)[kScores], uint32_t (&p)[kKeyTile / 16][4]) {
#pragma unroll
    for (int step = 0; step < kKeyTile / 16; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        p[step][i] = Pack<T>(s[step * 8 + 2 * i], s[step * 8 + 2 * i + 1]);
      }
    }
  }

  // Zeroes the rows of V outside [begin, end): a weight of zero does not cancel
  // a NaN. All warpgroups write the same zeros; each waits for its own.
  static __device__ __forceinline__ void ClearValues(T* v, int begin, int end,
                                                     int consumer) {
    const int thread = threadIdx.x % kWarpgroup;
    for (int i = thread; i < kKeyTile * kChunks; i += kWarpgroup) {
      const int row = (i / 8) % kKeyTile;
      if (row < begin || row >= end) {
        reinterpret_cast<uint4*>(v)[i] = uint4{0, 0, 0, 0};
      }
    }
    FenceAsyncProxy();
    NamedBarrierSync(kInnerBarrier + consumer, kWarpgroup);
  }

  static __device__ __forceinline__ void Release(uint64_t* barrier) {
    if (threadIdx.x % 32 == 0) BarrierArrive(barrier);
  }

  static __device__ void Consume(const KernelParams& params, bool gathered,
                                 Shared& shared, int consumer) {
    TicketReader reader;
    RingCursor<kStages> k_cursor;
    RingCursor<kStages> v_cursor;
    PrefillTile tile;
    QueryCursor q_cursor;
    const int warp = (threadIdx.x % kWarpgroup) / 32;
    const int lane = threadIdx.x % 32;
    const int next_consumer = consumer + 1 == kConsumers ? 0 : consumer + 1;
    const int my_row = consumer * 64 + warp * 16 + lane / 4;
    // The first warpgroup has the first turn.
    if (consumer == kConsumers - 1) {
      NamedBarrierArrive(kTurnBarrier, 2 * kWarpgroup);
    }
    while (reader.Next(shared, &tile)) {
      RowState rows;
      float o[kOutputs];
#pragma unroll
      for (int i = 0; i < kOutputs; ++i) o[i] = 0.0f;
      if (tile.kv_begin < tile.kv_end) {
        const MaskLimits limits(params, tile, my_row, consumer * 64, 64);
        const ScoreTransform transform(params);
        const int last = (tile.kv_end - 1) / kKeyTile;
        const int first = tile.kv_begin / kKeyTile;
        float s[kScores];
        uint32_t p[kKeyTile / 16][4];

        const uint32_t q_smem = Uniform(SharedAddress(shared.q[q_cursor.slot]) +
                                        consumer * 64 * 128);
        BarrierWait(&shared.q_full[q_cursor.slot], q_cursor.phase);
        FenceAsyncProxy();
        BarrierWait(&shared.k_full[k_cursor.slot], k_cursor.phase);
        if (gathered) FenceAsyncProxy();
        WgmmaFence();
        IssueScores(s, q_smem, SharedAddress(shared.k[k_cursor.slot]));
        WgmmaCommit();
        WgmmaWait<0>();
        PinRegisters(s);
        Release(&shared.k_empty[k_cursor.slot]);
        k_cursor.Advance();
        transform.Apply(s);
        if (limits.Cuts(last * kKeyTile, kKeyTile)) {
          limits.Apply(s, last * kKeyTile + 2 * (lane % 4));
        }
        float rescale[2];
        rows.Update(s, transform.scale_log2(), rescale);
        bool rescales = false;  // O is still zero

        // Products of weights and values end, and weights are packed, at the
        // loop's top: the assembler moves a wait up over arithmetic, but not
        // over the loop's end, and the softmax is to run beside the products.
#pragma unroll 1
        for (int n = last - 1; n >= first; --n) {
          FinishOutputs(shared, v_cursor, n + 1 < last, rescales, rescale, o);
          PackWeights(s, p);
          BarrierWait(&shared.k_full[k_cursor.slot], k_cursor.phase);
          if (gathered) FenceAsyncProxy();
          NamedBarrierSync(kTurnBarrier + consumer, 2 * kWarpgroup);
          WgmmaFence();
          IssueScores(s, q_smem, SharedAddress(shared.k[k_cursor.slot]));
          WgmmaCommit();
          AwaitValues(tile, gathered, shared, v_cursor, n + 1, consumer);
          WgmmaFence();
          IssueOutputs(o, p, SharedAddress(shared.v[v_cursor.slot]));
          WgmmaCommit();
          NamedBarrierArrive(kTurnBarrier + next_consumer, 2 * kWarpgroup);
          WgmmaWait<1>();
          PinRegisters(s);
          Release(&shared.k_empty[k_cursor.slot]);
          k_cursor.Advance();
          transform.Apply(s);
          if (limits.Cuts(n * kKeyTile, kKeyTile)) {
            limits.Apply(s, n * kKeyTile + 2 * (lane % 4));
          }
          rescales = rows.Update(s, transform.scale_log2(), rescale);
        }
        Release(&shared.q_empty[q_cursor.slot]);
        q_cursor.Advance();
        FinishOutputs(shared, v_cursor, first < last, rescales, rescale, o);
        PackWeights(s, p);
        AwaitValues(tile, gathered, shared, v_cursor, first, consumer);
        WgmmaFence();
        IssueOutputs(o, p, SharedAddress(shared.v[v_cursor.slot]));
        WgmmaCommit();
        WgmmaWait<0>();
        PinRegisters(o);
        Release(&shared.v_empty[v_cursor.slot]);
        v_cursor.Advance();
        rows.Finish(transform.scale_log2());
      }
      Write(params, tile, rows, o, my_row, lane);
    }
  }

  static __device__ __forceinline__ void AwaitValues(
      const PrefillTile& tile, bool gathered, Shared& shared,
      const RingCursor<kStages>& cursor, int n, int consumer) {
    BarrierWait(&shared.v_full[cursor.slot], cursor.phase);
    if (gathered) {
      FenceAsyncProxy();
      return;
    }
    const int begin = tile.kv_begin - n * kKeyTile;
    const int end = tile.k_len - n * kKeyTile;
    if (begin > 0 || end < kKeyTile) {
      ClearValues(shared.v[cursor.slot], begin, end, consumer);
    }
  }

  // Waits for the products with the values at the cursor, if some are in
  // flight, gives the values' stage back and rescales their sums.
  static __device__ __forceinline__ void FinishOutputs(
      Shared& shared, RingCursor<kStages>& cursor, bool in_flight,
      bool rescales, const float (&rescale)[2], float (&o)[kOutputs]) {
    WgmmaWait<0>();
    PinRegisters(o);
    if (in_flight) {
      Release(&shared.v_empty[cursor.slot]);
      cursor.Advance();
    }
    if (rescales) Rescale(o, rescale);
  }

  static __device__ __forceinline__ void Rescale(float (&o)[kOutputs],
                                                 const float (&factor)[2]) {
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) o[i] *= factor[(i / 2) % 2];
  }

  static __device__ __forceinline__ void Write(const KernelParams& params,
                                               const PrefillTile& tile,
                                               const RowState& rows,
                                               const float (&o)[kOutputs],
                                               int my_row, int lane) {
    const int quad_lane = lane % 4;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = my_row + 8 * r;
      const bool valid = row < tile.row_count;
      const int packed = tile.row_begin + (valid ? row : 0);
      const int token = params.group_divisor.Divide(packed);
      const int head =
          tile.kv_head * params.group_size + packed - token * params.group_size;
      const bool partial = tile.partial_row >= 0;
      const RowEnd end = EndRow(
          rows.max(r), rows.sum(r),
          partial || params.sinks == nullptr ? nullptr : params.sinks + head);
      if (partial) {
        const int64_t slot = int64_t{tile.partial_row} + row;
        float* out = params.schedule.partial_out + slot * kHeadDim;
        if (valid) {
#pragma unroll
          for (int i = 0; i < kHeadDim / 8; ++i) {
            *reinterpret_cast<float2*>(out + i * 8 + quad_lane * 2) = {
                o[4 * i + 2 * r] * end.factor,
                o[4 * i + 2 * r + 1] * end.factor};
          }
          if (quad_lane == 0) params.schedule.partial_lse[slot] = end.lse;
        }
        continue;
      }
      T* out = static_cast<T*>(params.out) +
               (tile.q_begin + token) * params.out_token_stride +
               head * params.out_head_stride;
#pragma unroll
      for (int i = 0; i < kHeadDim / 8; i += 4) {
        uint32_t words[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          words[j] = Pack<T>(o[4 * (i + j) + 2 * r] * end.factor,
                             o[4 * (i + j) + 2 * r + 1] * end.factor);
        }
        TransposeQuad(words, quad_lane);
        if (valid) {
          *reinterpret_cast<uint4*>(out + (i + quad_lane) * 8) = {
              words[0], words[1], words[2], words[3]};
        }
      }
      if (valid && quad_lane == 0 && params.lse != nullptr) {
        params.lse[head * params.lse_head_stride + tile.q_begin + token] =
            end.lse;
      }
    }
  }
};

}  // namespace interleave::attention::hopper

#endif  // ATTENTION_HOPPER_PREFILL_CUH_
