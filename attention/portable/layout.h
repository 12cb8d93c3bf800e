// Tiles and shared memory of the portable kernels, for host and device.

#ifndef ATTENTION_PORTABLE_LAYOUT_H_
#define ATTENTION_PORTABLE_LAYOUT_H_

#include <cstdint>

#include "attention/kernel_params.h"

namespace interleave::attention::portable {

inline constexpr int kWarps = 4;
inline constexpr int kThreads = 32 * kWarps;
inline constexpr int kMaxStages = 4;

// A prefill tile gives each warp 16 rows of its own and all keys of the kv
// tile. A decode tile has 16 rows in all; each warp takes a quarter of the keys
// and the warps' results are merged at the end of the item.
constexpr int RowWarps(Role role) { return role == Role::kPrefill ? 4 : 1; }
constexpr int KvWarps(Role role) { return kWarps / RowWarps(role); }
constexpr int Rows(Role role) { return 16 * RowWarps(role); }
constexpr int TileKv(Role role, int head_dim) {
  return role == Role::kPrefill && head_dim > 128 ? 32 : 64;
}

// Rows are padded by 16 bytes, an odd count of 16-byte words for every
// head_dim, so that ldmatrix meets no bank conflict.
constexpr int RowBytes(int head_dim) { return 2 * head_dim + 16; }
constexpr int QueryBytes(Role role, int head_dim) {
  return Rows(role) * RowBytes(head_dim);
}
constexpr int StageBytes(Role role, int head_dim) {
  return 2 * TileKv(role, head_dim) * RowBytes(head_dim);
}
// Where the rows of the next two kv tiles lie: two ints a row.
constexpr int OffsetBytes(Role role, int head_dim) {
  return 2 * TileKv(role, head_dim) * 8;
}
constexpr int SharedBytes(Role role, int head_dim, int stages) {
  return QueryBytes(role, head_dim) + OffsetBytes(role, head_dim) +
         stages * StageBytes(role, head_dim);
}

// Thread blocks of a multiprocessor that registers leave room for.
constexpr int BlocksByRegisters(Role role, int head_dim) {
  if (role == Role::kDecode) return head_dim > 128 ? 2 : 3;
  return 2;
}

// As many stages as still let BlocksByRegisters blocks share the memory; at
// least one, and two where one block alone can have them.
constexpr int Stages(Role role, int head_dim, int max_shared) {
  int stages = 1;
  const int blocks = BlocksByRegisters(role, head_dim);
  // A thread block's share pays 1 KB to the system.
  const int share = (max_shared + 1024) / blocks - 1024 - 128;
  while (
      stages < kMaxStages &&
      (SharedBytes(role, head_dim, stages + 1) <= share ||
       (stages == 1 && SharedBytes(role, head_dim, 2) + 128 <= max_shared))) {
    ++stages;
  }
  return stages;
}

constexpr int BlocksPerSm(Role role, int head_dim, int max_shared) {
  const int bytes =
      SharedBytes(role, head_dim, Stages(role, head_dim, max_shared)) + 128;
  const int by_memory = (max_shared + 1024) / (bytes + 1024);
  const int by_registers = BlocksByRegisters(role, head_dim);
  return by_memory < by_registers ? (by_memory < 1 ? 1 : by_memory)
                                  : by_registers;
}

}  // namespace interleave::attention::portable

#endif  // ATTENTION_PORTABLE_LAYOUT_H_
