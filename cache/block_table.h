// BlockTable: the blocks of one sequence in order, and the memory they are
// listed in, which is used again by later sequences: once the tables alive
// have had their peak, nothing is allocated.

#ifndef CACHE_BLOCK_TABLE_H_
#define CACHE_BLOCK_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"

namespace interleave::cache {

// Entry i is the id of the block with tokens [i * block_size,
// (i + 1) * block_size).  The memory is a BlockTableArena's.
struct BlockTable {
  int32_t* blocks = nullptr;
  int32_t size = 0;
  int32_t capacity = 0;
  // Leading entries that are kNullBlock: they left the window.
  int32_t dropped = 0;

  absl::Span<const int32_t> all() const {
    return {blocks, static_cast<size_t>(size)};
  }
  absl::Span<const int32_t> held() const {
    return all().subspan(static_cast<size_t>(dropped));
  }
};

class BlockTableArena {
 public:
  BlockTableArena() = default;
  BlockTableArena(const BlockTableArena&) = delete;
  BlockTableArena& operator=(const BlockTableArena&) = delete;

  // Makes room for `capacity` entries, keeping those there are.
  void Reserve(BlockTable& table, int64_t capacity) {
    if (capacity > table.capacity) Enlarge(table, capacity);
  }

  // Takes the table's memory back; the table is empty then.
  void Free(BlockTable& table);

 private:
  // A table of class c has room for kSmallest << c entries.
  static constexpr int64_t kSmallest = 16;
  static constexpr size_t kNumClasses = 27;
  static constexpr int64_t kSlabEntries = 1 << 15;

  static size_t ClassOf(int64_t capacity);
  int32_t* Allocate(size_t size_class);
  void Enlarge(BlockTable& table, int64_t capacity);

  std::vector<std::unique_ptr<int32_t[]>> slabs_;
  int32_t* slab_next_ = nullptr;
  int64_t slab_left_ = 0;
  // Of each class, the first unused table; it holds a pointer to the next.
  std::array<int32_t*, kNumClasses> unused_ = {};
};

}  // namespace interleave::cache

#endif  // CACHE_BLOCK_TABLE_H_
