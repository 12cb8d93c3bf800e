#include "base/strong_int.h"

#include <cstdint>
#include <type_traits>

#include "absl/container/flat_hash_set.h"
#include "gtest/gtest.h"

namespace interleave {
namespace {

using BlockId = StrongInt<struct BlockIdTag, int32_t>;
using RequestId = StrongInt<struct RequestIdTag, int32_t>;

TEST(StrongIntTest, KindsDoNotMix) {
  static_assert(!std::is_convertible_v<BlockId, RequestId>);
  static_assert(!std::is_convertible_v<int32_t, BlockId>);
  static_assert(!std::is_convertible_v<BlockId, int32_t>);
}

TEST(StrongIntTest, ComparesAndHashes) {
  EXPECT_LT(BlockId(1), BlockId(2));
  EXPECT_EQ(BlockId(), BlockId(0));
  absl::flat_hash_set<BlockId> ids = {BlockId(1), BlockId(1), BlockId(2)};
  EXPECT_EQ(ids.size(), 2);
}

}  // namespace
}  // namespace interleave
