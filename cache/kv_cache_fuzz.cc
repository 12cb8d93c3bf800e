// libFuzzer: bytes are options and a program for KvCacheOps.

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "base/check.h"
#include "cache/kv_cache_ops.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using interleave::cache::KvCacheOps;
  using interleave::cache::OpReader;
  OpReader reader(absl::MakeConstSpan(data, size));
  KvCacheOps ops(KvCacheOps::ReadOptions(reader));
  while (!reader.done()) CHECK(ops.Perform(reader).ok());
  return 0;
}
