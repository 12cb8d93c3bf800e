#include "cache/block_table.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/check.h"

namespace interleave::cache {

size_t BlockTableArena::ClassOf(int64_t capacity) {
  size_t size_class = 0;
  while (kSmallest << size_class < capacity) ++size_class;
  CHECK_LT(size_class, kNumClasses);
  return size_class;
}

int32_t* BlockTableArena::Allocate(size_t size_class) {
  if (int32_t* const first = unused_[size_class]; first != nullptr) {
    std::memcpy(&unused_[size_class], first, sizeof(int32_t*));
    return first;
  }
  const int64_t entries = kSmallest << size_class;
  if (entries > slab_left_) {
    // What is left of the last slab is smaller than this table; it is lost.
    slab_left_ = std::max(entries, kSlabEntries);
    slabs_.push_back(
        std::make_unique<int32_t[]>(static_cast<size_t>(slab_left_)));
    slab_next_ = slabs_.back().get();
  }
  int32_t* const result = slab_next_;
  slab_next_ += entries;
  slab_left_ -= entries;
  return result;
}

void BlockTableArena::Free(BlockTable& table) {
  if (table.blocks != nullptr) {
    int32_t*& first = unused_[ClassOf(table.capacity)];
    std::memcpy(table.blocks, &first, sizeof(first));
    first = table.blocks;
  }
  table = BlockTable();
}

void BlockTableArena::Enlarge(BlockTable& table, int64_t capacity) {
  const size_t size_class = ClassOf(capacity);
  BlockTable larger = table;
  larger.blocks = Allocate(size_class);
  larger.capacity = static_cast<int32_t>(kSmallest << size_class);
  std::copy_n(table.blocks, table.size, larger.blocks);
  Free(table);
  table = larger;
}

}  // namespace interleave::cache
