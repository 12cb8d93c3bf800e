#include "cache/kv_cache_manager.h"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/status_testing.h"
#include "cache/block_pool.h"
#include "cache/token_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {
// Calls of operator new so far.
int64_t num_allocations = 0;
}  // namespace

void* operator new(size_t size) {
  ++num_allocations;
  if (void* const memory = std::malloc(size); memory != nullptr) return memory;
  std::abort();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace interleave::cache {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Tokens = std::vector<int32_t>;

// `count` tokens, all `value`, after `tokens`.
Tokens Plus(Tokens tokens, size_t count, int32_t value) {
  tokens.insert(tokens.end(), count, value);
  return tokens;
}

// Three full blocks of 16.
Tokens Common() { return Plus(Plus(Plus({}, 16, 0), 16, 1), 16, 2); }

// `count` tokens that differ.
Tokens Distinct(int32_t first, int32_t count) {
  Tokens tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(first + i);
  return tokens;
}

KvCacheOptions Options(int64_t num_blocks, int64_t block_size = 16,
                       bool prefix_caching = true) {
  KvCacheOptions options;
  options.num_blocks = num_blocks;
  options.block_size = block_size;
  options.enable_prefix_caching = prefix_caching;
  return options;
}

std::unique_ptr<KvCacheManager> Make(const KvCacheOptions& options) {
  auto cache = KvCacheManager::Create(options);
  EXPECT_OK(cache);
  return *std::move(cache);
}

class KvCacheManagerTest : public testing::Test {
 protected:
  void TearDown() override {
    if (cache_ == nullptr) return;
    EXPECT_OK(cache_->CheckInvariants());
  }

  void Use(const KvCacheOptions& options) { cache_ = Make(options); }

  PrefixHit Find(const Tokens& tokens,
                 absl::Span<const int64_t> keys = {}) const {
    return cache_->FindPrefix(SpanTokenSource(tokens),
                              static_cast<int64_t>(tokens.size()), keys);
  }

  // Admits a sequence with what hits, and computes all of it.
  SequenceId Start(const Tokens& tokens, absl::Span<const int64_t> keys = {}) {
    const SequenceId id = cache_->CreateSequence();
    const int64_t size = static_cast<int64_t>(tokens.size());
    EXPECT_TRUE(cache_->Admit(id, Find(tokens, keys), size));
    EXPECT_TRUE(
        cache_->RegisterComputed(id, SpanTokenSource(tokens), size, keys));
    EXPECT_OK(cache_->CheckInvariants());
    return id;
  }

  // As Start, but what hits is not used.
  SequenceId StartWithoutPrefix(const Tokens& tokens) {
    const SequenceId id = cache_->CreateSequence();
    const int64_t size = static_cast<int64_t>(tokens.size());
    EXPECT_TRUE(cache_->Grow(id, size));
    EXPECT_TRUE(cache_->RegisterComputed(id, SpanTokenSource(tokens), size));
    EXPECT_OK(cache_->CheckInvariants());
    return id;
  }

  std::vector<int32_t> Table(SequenceId id, int64_t group = 0) const {
    const absl::Span<const int32_t> table = cache_->block_table(id, group);
    return {table.begin(), table.end()};
  }
  std::vector<int32_t> References(const std::vector<int32_t>& blocks) const {
    std::vector<int32_t> references;
    for (const int32_t block : blocks) {
      references.push_back(cache_->pool().ref_count(BlockId(block)));
    }
    return references;
  }
  bool IsCached(int32_t block) const {
    return cache_->pool().is_cached(BlockId(block));
  }
  std::vector<int32_t> FreeOrder() const { return cache_->pool().FreeOrder(); }

  std::unique_ptr<KvCacheManager> cache_;
};

TEST_F(KvCacheManagerTest, RefusesOptionsThatMakeNoSense) {
  EXPECT_THAT(KvCacheManager::Create(Options(0)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("num_blocks is 0")));
  EXPECT_THAT(KvCacheManager::Create(Options(4, 0)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("block_size is 0")));
  KvCacheOptions options = Options(4);
  options.num_host_blocks = -1;
  EXPECT_THAT(KvCacheManager::Create(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("num_host_blocks is -1")));
  options = Options(4);
  options.groups = {CacheGroup{-3}};
  EXPECT_THAT(
      KvCacheManager::Create(options),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("window is -3")));
}

// ---- Prefix caching, on ten blocks of 16 ----

TEST_F(KvCacheManagerTest, PrefixIsSharedAndOutlivesItsSequences) {
  Use(Options(10));
  const SequenceId first = cache_->CreateSequence();
  const Tokens first_tokens = Plus(Common(), 7, 3);
  EXPECT_EQ(Find(first_tokens).num_tokens, 0);
  ASSERT_TRUE(cache_->Admit(first, Find(first_tokens), 55));
  EXPECT_THAT(Table(first), ElementsAre(0, 1, 2, 3));
  ASSERT_TRUE(
      cache_->RegisterComputed(first, SpanTokenSource(first_tokens), 55));
  EXPECT_TRUE(IsCached(0) && IsCached(1) && IsCached(2));
  EXPECT_FALSE(IsCached(3));
  EXPECT_THAT(References({0, 1, 2, 3}), Each(1));

  const Tokens second_tokens = Plus(Common(), 5, 3);
  const PrefixHit hit = Find(second_tokens);
  EXPECT_THAT(hit.blocks, ElementsAre(0, 1, 2));
  EXPECT_EQ(hit.num_tokens, 48);
  const SequenceId second = Start(second_tokens);
  EXPECT_THAT(Table(second), ElementsAre(0, 1, 2, 4));
  EXPECT_THAT(References({0, 1, 2}), Each(2));
  EXPECT_EQ(cache_->free_blocks(), 5);
  EXPECT_EQ(cache_->BlocksFreedBy(first), 1);

  ASSERT_TRUE(cache_->Release(first));
  ASSERT_TRUE(cache_->Release(second));
  EXPECT_THAT(FreeOrder(), ElementsAre(5, 6, 7, 8, 9, 3, 4, 2, 1, 0));

  const Tokens third_tokens = Plus(Common(), 6, 3);
  EXPECT_THAT(Find(third_tokens).blocks, ElementsAre(0, 1, 2));
  const SequenceId third = Start(third_tokens);
  EXPECT_THAT(Table(third), ElementsAre(0, 1, 2, 5));
  EXPECT_EQ(cache_->free_blocks(), 6);
  EXPECT_THAT(References(FreeOrder()), Each(0));

  ASSERT_TRUE(cache_->Release(third));
  const Tokens other(160, 99);
  EXPECT_EQ(Find(other).num_tokens, 0);
  const SequenceId fourth = Start(other);
  EXPECT_THAT(Table(fourth), ElementsAre(6, 7, 8, 9, 3, 4, 5, 2, 1, 0));
  EXPECT_EQ(cache_->free_blocks(), 0);
  EXPECT_EQ(cache_->stats().evictions, 3);
  EXPECT_EQ(cache_->Grow(cache_->CreateSequence(), 1), Outcome::kNoSpace);
}

TEST_F(KvCacheManagerTest, OneContentInSeveralBlocks) {
  Use(Options(10));
  const Tokens tokens = Plus(Common(), 7, 3);
  const SequenceId first = Start(tokens);
  const SequenceId second = StartWithoutPrefix(tokens);
  EXPECT_THAT(Table(second), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(References(Table(first)), Each(1));
  EXPECT_THAT(References(Table(second)), Each(1));
  EXPECT_EQ(cache_->stats().cached_blocks, 6);
  const PrefixIndex& index = *cache_->index();
  for (const int32_t i : {0, 1, 2}) {
    EXPECT_EQ(index.identity(BlockId(i)), index.identity(BlockId(i + 4)));
  }
  EXPECT_THAT(Find(tokens).blocks, ElementsAre(0, 1, 2));
}

TEST_F(KvCacheManagerTest, BlocksAreCachedOnceFull) {
  Use(Options(10));
  Tokens tokens = Plus(Common(), 7, 3);
  const SequenceId id = Start(tokens);
  tokens = Plus(tokens, 4, 4);
  ASSERT_TRUE(cache_->Grow(id, 59));
  ASSERT_TRUE(cache_->RegisterComputed(id, SpanTokenSource(tokens), 59));
  EXPECT_THAT(Table(id), ElementsAre(0, 1, 2, 3));
  EXPECT_FALSE(IsCached(3));
  tokens = Plus(tokens, 19, 5);
  ASSERT_TRUE(cache_->Grow(id, 78));
  ASSERT_TRUE(cache_->RegisterComputed(id, SpanTokenSource(tokens), 78));
  EXPECT_THAT(Table(id), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_TRUE(IsCached(3));
  EXPECT_FALSE(IsCached(4));
}

TEST_F(KvCacheManagerTest, EvictsLeastRecentlyUsedAndTailsFirst) {
  Use(Options(10));
  const Tokens long_tokens = Distinct(0, 87);
  const SequenceId first = Start(long_tokens);
  const SequenceId second = Start(Distinct(1000, 48));
  EXPECT_THAT(Table(first), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(Table(second), ElementsAre(6, 7, 8));
  EXPECT_EQ(cache_->free_blocks(), 1);
  ASSERT_TRUE(cache_->Release(first));
  ASSERT_TRUE(cache_->Release(second));
  EXPECT_THAT(FreeOrder(), ElementsAre(9, 5, 4, 3, 2, 1, 0, 8, 7, 6));
  const SequenceId third = Start(Distinct(0, 35));
  EXPECT_THAT(Table(third), ElementsAre(0, 1, 9));
  EXPECT_EQ(cache_->free_blocks(), 7);
}

TEST_F(KvCacheManagerTest, ReusedBlockForgetsItsContent) {
  Use(Options(1));
  const SequenceId first = Start(Distinct(0, 16));
  EXPECT_TRUE(IsCached(0));
  ASSERT_TRUE(cache_->DestroySequence(first));
  EXPECT_TRUE(IsCached(0));
  Start(Distinct(100, 15));
  EXPECT_FALSE(IsCached(0));
  EXPECT_EQ(Find(Distinct(0, 17)).num_tokens, 0);
  EXPECT_EQ(cache_->stats().cached_blocks, 0);
}

TEST_F(KvCacheManagerTest, WithoutPrefixCachingNothingHits) {
  Use(Options(4, 4, /*prefix_caching=*/false));
  const SequenceId first = Start(Distinct(0, 10));
  EXPECT_EQ(cache_->num_blocks_of(first), 3);
  ASSERT_TRUE(cache_->Release(first));
  const SequenceId second = Start(Distinct(0, 16));
  EXPECT_EQ(cache_->num_blocks_of(second), 4);
  const SequenceId third = cache_->CreateSequence();
  EXPECT_EQ(cache_->Admit(third, Find(Distinct(0, 4)), 4), Outcome::kNoSpace);
  EXPECT_THAT(cache_->AsStatus(Outcome::kNoSpace),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(cache_->num_blocks_of(second), 4);
  EXPECT_EQ(cache_->num_blocks_of(third), 0);
  EXPECT_EQ(cache_->index(), nullptr);
  EXPECT_FALSE(cache_->ResetPrefixCache());
}

TEST_F(KvCacheManagerTest, RegistersFullBlocksAsTheyAreComputed) {
  Use(Options(10, 4));
  const Tokens tokens = Distinct(0, 14);
  const SequenceId id = cache_->CreateSequence();
  ASSERT_TRUE(cache_->Grow(id, 14));
  ASSERT_TRUE(cache_->RegisterComputed(id, SpanTokenSource(tokens), 9));
  EXPECT_EQ(cache_->stats().cached_blocks, 2);
  ASSERT_TRUE(cache_->RegisterComputed(id, SpanTokenSource(tokens), 14));
  EXPECT_EQ(cache_->stats().cached_blocks, 3);
  EXPECT_FALSE(IsCached(Table(id)[3]));
}

TEST_F(KvCacheManagerTest, HitBlocksOnTheFreeListCountAsNeeded) {
  Use(Options(10));
  const SequenceId first = Start(Common());
  const std::vector<int32_t> head = Table(first);
  const Tokens twice = Plus(Plus(Plus(Common(), 16, 0), 16, 1), 16, 2);
  const SequenceId second = Start(twice);
  EXPECT_EQ(cache_->num_blocks_of(second), 6);
  const std::vector<int32_t> both = Table(second);
  const std::vector<int32_t> tail(both.begin() + 3, both.end());
  ASSERT_TRUE(cache_->Release(second));
  EXPECT_THAT(References(head), Each(1));
  EXPECT_THAT(References(tail), Each(0));
  Start(Tokens(32, 7));
  EXPECT_EQ(cache_->free_blocks(), 5);

  const Tokens thrice = Plus(Plus(Plus(twice, 16, 0), 16, 1), 16, 2);
  const PrefixHit hit = Find(thrice);
  EXPECT_EQ(hit.num_tokens, 96);
  EXPECT_EQ(cache_->BlocksNeeded(hit, 144), 6);
  EXPECT_EQ(cache_->CanAdmit(hit, 144), Fit::kLater);
  const SequenceId third = cache_->CreateSequence();
  EXPECT_EQ(cache_->Admit(third, hit, 144), Outcome::kNoSpace);
  EXPECT_THAT(References(head), Each(1));
  EXPECT_THAT(References(tail), Each(0));
  EXPECT_EQ(cache_->num_blocks_of(third), 0);
}

TEST_F(KvCacheManagerTest, EvictableHitIsNotAllocatedTwice) {
  KvCacheOptions options = Options(4, 2);
  options.groups = {CacheGroup{4}};
  Use(options);
  const SequenceId first = Start(Distinct(0, 3));
  ASSERT_TRUE(cache_->Release(first));
  const PrefixHit hit = Find(Distinct(0, 4));
  EXPECT_EQ(hit.num_tokens, 2);
  EXPECT_EQ(cache_->BlocksNeeded(hit, 4), 2);
  const SequenceId second = cache_->CreateSequence();
  ASSERT_TRUE(cache_->Admit(second, hit, 4));
  EXPECT_EQ(cache_->free_blocks(), 2);
  EXPECT_THAT(Table(second), ElementsAre(0, 2));
}

TEST_F(KvCacheManagerTest, ResetWaitsUntilNothingIsInUse) {
  Use(Options(10));
  const Tokens tokens = Plus(Common(), 7, 3);
  const SequenceId id = Start(tokens);
  EXPECT_FALSE(cache_->ResetPrefixCache());
  EXPECT_EQ(Find(tokens).num_tokens, 48);
  ASSERT_TRUE(cache_->Release(id));
  EXPECT_TRUE(cache_->ResetPrefixCache());
  EXPECT_EQ(Find(tokens).num_tokens, 0);
  EXPECT_EQ(cache_->stats().cached_blocks, 0);
  for (int32_t block = 0; block < 10; ++block) EXPECT_FALSE(IsCached(block));
}

TEST_F(KvCacheManagerTest, TheLastTokenIsNeverHit) {
  Use(Options(10));
  Start(Common());
  EXPECT_EQ(Find(Common()).num_tokens, 32);
  EXPECT_EQ(Find(Plus(Common(), 1, 9)).num_tokens, 48);
  EXPECT_EQ(Find(Tokens(16, 0)).num_tokens, 0);
  EXPECT_EQ(Find({}).num_tokens, 0);
}

TEST_F(KvCacheManagerTest, ExtraKeysKeepEqualTokensApart) {
  Use(Options(20, 1));
  const Tokens tokens = {1, 2, 3};
  Start(tokens);
  Start(tokens, {101});
  Start(tokens, {102});
  EXPECT_EQ(cache_->used_blocks(), 9);
  const Tokens longer = {1, 2, 3, 4};
  EXPECT_THAT(Find(longer).blocks, ElementsAre(0, 1, 2));
  EXPECT_THAT(Find(longer, {101}).blocks, ElementsAre(3, 4, 5));
  EXPECT_THAT(Find(longer, {102}).blocks, ElementsAre(6, 7, 8));
  EXPECT_EQ(Find(longer, {103}).num_tokens, 0);
  EXPECT_EQ(Find(longer, {101, 102}).num_tokens, 0);
  EXPECT_THAT(Find({1, 2, 9}).blocks, ElementsAre(0, 1));
}

// Counts how many tokens are asked for.
class CountingSource final : public TokenSource {
 public:
  explicit CountingSource(const Tokens& tokens) : source_(tokens) {}
  void Read(int64_t begin, absl::Span<int32_t> out) const override {
    num_read_ += static_cast<int64_t>(out.size());
    source_.Read(begin, out);
  }
  int64_t num_read() const { return num_read_; }

 private:
  SpanTokenSource source_;
  mutable int64_t num_read_ = 0;
};

TEST_F(KvCacheManagerTest, RepeatedLookUpReadsNoTokens) {
  Use(Options(20, 4));
  const Tokens tokens = Distinct(0, 41);
  const CountingSource source(tokens);
  BlockHashes hashes;
  EXPECT_EQ(cache_->FindPrefix(source, 41, {}, hashes).num_tokens, 0);
  const SequenceId id = Start(Distinct(0, 24));
  EXPECT_EQ(cache_->FindPrefix(source, 41, {}, hashes).num_tokens, 24);
  const int64_t read = source.num_read();
  EXPECT_EQ(cache_->FindPrefix(source, 41, {}, hashes).num_tokens, 24);
  EXPECT_EQ(source.num_read(), read);
  // Nor is what was known trusted after the blocks are gone.
  ASSERT_TRUE(cache_->Release(id));
  const SequenceId other = Start(Distinct(500, 80));
  EXPECT_EQ(cache_->FindPrefix(source, 41, {}, hashes).num_tokens, 0);
  ASSERT_TRUE(cache_->Release(other));
  Start(Distinct(0, 12));
  EXPECT_EQ(cache_->FindPrefix(source, 41, {}, hashes).num_tokens, 12);
}

TEST_F(KvCacheManagerTest, RefusesAHitThatIsOutOfDate) {
  Use(Options(4, 4));
  const SequenceId first = Start(Distinct(0, 8));
  const PrefixHit hit = Find(Distinct(0, 9));
  EXPECT_EQ(hit.num_tokens, 8);
  const int64_t version = cache_->index_version();
  ASSERT_TRUE(cache_->Release(first));
  EXPECT_EQ(cache_->index_version(), version);
  const SequenceId second = Start(Distinct(50, 16));
  EXPECT_GT(cache_->index_version(), version);
  ASSERT_TRUE(cache_->Release(second));
  const SequenceId third = cache_->CreateSequence();
  EXPECT_EQ(cache_->Acquire(third, hit), Outcome::kInvalid);
  EXPECT_THAT(
      cache_->AsStatus(Outcome::kInvalid),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("out of date")));
  EXPECT_EQ(cache_->free_blocks(), 4);
}

// ---- Capacity ----

TEST_F(KvCacheManagerTest, NeedIsWhatGrowTakes) {
  Use(Options(8, 4));
  const SequenceId id = cache_->CreateSequence();
  int64_t before = cache_->free_blocks();
  for (int64_t tokens = 0; tokens <= 32; ++tokens) {
    const int64_t needed = cache_->BlocksNeeded(id, tokens);
    ASSERT_EQ(cache_->CanGrow(id, tokens), Fit::kOk);
    ASSERT_TRUE(cache_->Grow(id, tokens));
    EXPECT_EQ(before - cache_->free_blocks(), needed);
    EXPECT_EQ(needed, tokens % 4 == 1 ? 1 : 0);
    before = cache_->free_blocks();
  }
}

TEST_F(KvCacheManagerTest, WindowGroupTakesWhatWasPredicted) {
  KvCacheOptions options = Options(8, 2);
  options.groups = {CacheGroup{8}};
  Use(options);
  const SequenceId id = cache_->CreateSequence();
  for (const int64_t tokens : {4, 8, 12, 16}) {
    const int64_t before = cache_->free_blocks();
    EXPECT_EQ(cache_->BlocksNeeded(id, tokens), 2);
    ASSERT_TRUE(cache_->Grow(id, tokens));
    EXPECT_EQ(before - cache_->free_blocks(), 2);
    ASSERT_TRUE(cache_->DropOutsideWindow(id, tokens));
  }
  // The query at position 16 reads from 9 on: blocks 0 to 3 are gone.
  EXPECT_THAT(Table(id), ElementsAre(-1, -1, -1, -1, 4, 5, 6, 7));
  EXPECT_EQ(cache_->num_blocks_of(id), 4);
}

TEST_F(KvCacheManagerTest, ReservedBlocksAreLeftFree) {
  Use(Options(4, 4));
  for (int i = 0; i < 4; ++i) {
    const SequenceId id = cache_->CreateSequence();
    EXPECT_EQ(cache_->CanGrow(id, 4), Fit::kOk);
    EXPECT_EQ(cache_->CanGrow(id, 4, /*reserved_blocks=*/1),
              i < 3 ? Fit::kOk : Fit::kLater);
    ASSERT_TRUE(cache_->Grow(id, 4));
  }
  EXPECT_EQ(cache_->CanAdmit(PrefixHit(), 4), Fit::kLater);
  const SequenceId fifth = cache_->CreateSequence();
  EXPECT_EQ(cache_->CanGrow(fifth, 4), Fit::kLater);
  EXPECT_EQ(cache_->Grow(fifth, 4), Outcome::kNoSpace);
}

TEST_F(KvCacheManagerTest, SaysWhatCanNeverFit) {
  Use(Options(49));
  // 1,002 tokens take 63 blocks.
  const SequenceId id = cache_->CreateSequence();
  EXPECT_EQ(cache_->CanGrow(id, 1002), Fit::kNever);
  EXPECT_EQ(cache_->CanAdmit(PrefixHit(), 1002), Fit::kNever);
  EXPECT_EQ(cache_->CanGrow(id, 784), Fit::kOk);
  EXPECT_EQ(cache_->CanGrow(id, 784, 1), Fit::kNever);
  EXPECT_EQ(cache_->CanGrow(id, 785), Fit::kNever);
  // Others go on.
  const SequenceId other = cache_->CreateSequence();
  ASSERT_TRUE(cache_->Grow(other, 16));
  EXPECT_EQ(cache_->CanGrow(id, 784), Fit::kLater);
  EXPECT_EQ(cache_->CanGrow(id, KvCacheManager::kNoPromise), Fit::kNever);
  EXPECT_EQ(cache_->Grow(id, KvCacheManager::kNoPromise), Outcome::kNoSpace);
}

// ---- Misuse ----

TEST_F(KvCacheManagerTest, MisuseIsRefusedWithAReason) {
  Use(Options(8, 4));
  const SequenceId id = cache_->CreateSequence(/*promised_tokens=*/10);
  ASSERT_TRUE(cache_->Grow(id, 5));

  EXPECT_EQ(cache_->Grow(SequenceId(7), 1), Outcome::kInvalid);
  EXPECT_THAT(
      cache_->AsStatus(Outcome::kInvalid),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("no sequence 7")));
  EXPECT_EQ(cache_->Grow(SequenceId(-1), 1), Outcome::kInvalid);
  EXPECT_EQ(cache_->Grow(id, 4), Outcome::kInvalid);
  EXPECT_THAT(cache_->AsStatus(Outcome::kInvalid),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("can't shrink to 4")));
  EXPECT_EQ(cache_->Grow(id, 11), Outcome::kInvalid);
  EXPECT_THAT(cache_->AsStatus(Outcome::kInvalid),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("promised to stay at 10")));
  EXPECT_EQ(cache_->CanGrow(id, 11), Fit::kNever);
  EXPECT_EQ(cache_->RegisterComputed(id, SpanTokenSource({}), 9),
            Outcome::kInvalid);
  EXPECT_EQ(cache_->Admit(id, PrefixHit(), 6), Outcome::kInvalid);
  EXPECT_EQ(cache_->SwapIn(id), Outcome::kInvalid);
  EXPECT_EQ(cache_->num_tokens(id), 5);
  EXPECT_EQ(cache_->num_blocks_of(id), 2);

  ASSERT_TRUE(cache_->DestroySequence(id));
  EXPECT_EQ(cache_->DestroySequence(id), Outcome::kInvalid);
  EXPECT_EQ(cache_->Release(id), Outcome::kInvalid);
  EXPECT_EQ(cache_->free_blocks(), 8);
}

TEST_F(KvCacheManagerTest, ReleaseTwiceIsOneRelease) {
  Use(Options(8, 4));
  const SequenceId id = cache_->CreateSequence();
  ASSERT_TRUE(cache_->Grow(id, 9));
  ASSERT_TRUE(cache_->Release(id));
  ASSERT_TRUE(cache_->Release(id));
  EXPECT_EQ(cache_->free_blocks(), 8);
  EXPECT_EQ(cache_->num_tokens(id), 0);
}

// ---- Growing many ----

TEST_F(KvCacheManagerTest, GrowsManyByOneBlockOrNone) {
  Use(Options(6, 4));
  std::vector<SequenceId> ids;
  for (int i = 0; i < 2; ++i) {
    ids.push_back(cache_->CreateSequence());
    ASSERT_TRUE(cache_->Grow(ids.back(), 4));
  }
  ASSERT_TRUE(cache_->GrowByBlocks(ids, 1));
  EXPECT_THAT(Table(ids[0]), ElementsAre(0, 2));
  EXPECT_THAT(Table(ids[1]), ElementsAre(1, 3));
  EXPECT_EQ(cache_->num_tokens(ids[0]), 5);
  // Tokens inside the new block are not told; the next boundary is.
  ASSERT_TRUE(cache_->GrowByBlocks(ids, 1));
  EXPECT_EQ(cache_->num_tokens(ids[1]), 9);
  EXPECT_EQ(cache_->free_blocks(), 0);
  EXPECT_EQ(cache_->GrowByBlocks({&ids[0], 1}, 1), Outcome::kNoSpace);
  EXPECT_TRUE(cache_->GrowByBlocks({}, 1));
  EXPECT_THAT(Table(ids[0]), ElementsAre(0, 2, 4));
}

TEST_F(KvCacheManagerTest, GrowsManyBySeveralBlocksOrNone) {
  Use(Options(9, 4));
  const SequenceId ids[] = {cache_->CreateSequence(), cache_->CreateSequence()};
  ASSERT_TRUE(cache_->Grow(ids[1], 4));
  ASSERT_TRUE(cache_->GrowByBlocks(ids, 3));
  EXPECT_THAT(Table(ids[0]), ElementsAre(1, 2, 3));
  EXPECT_THAT(Table(ids[1]), ElementsAre(0, 4, 5, 6));
  EXPECT_EQ(cache_->num_tokens(ids[0]), 9);
  EXPECT_EQ(cache_->num_tokens(ids[1]), 13);
  EXPECT_EQ(cache_->GrowByBlocks(ids, 2), Outcome::kNoSpace);
  EXPECT_EQ(cache_->GrowByBlocks(ids, 0), Outcome::kInvalid);
  EXPECT_EQ(cache_->GrowByBlocks(ids, 10), Outcome::kInvalid);
  EXPECT_EQ(cache_->free_blocks(), 2);
}

TEST_F(KvCacheManagerTest, GrowingManyRefusesMisuse) {
  Use(Options(8, 4));
  const SequenceId a = cache_->CreateSequence();
  const SequenceId b = cache_->CreateSequence(/*promised_tokens=*/4);
  ASSERT_TRUE(cache_->Grow(a, 4));
  ASSERT_TRUE(cache_->Grow(b, 4));
  const std::vector<SequenceId> twice = {a, a};
  EXPECT_EQ(cache_->GrowByBlocks(twice, 1), Outcome::kInvalid);
  const std::vector<SequenceId> promised = {a, b};
  EXPECT_EQ(cache_->GrowByBlocks(promised, 1), Outcome::kInvalid);
  const std::vector<SequenceId> unknown = {a, SequenceId(9)};
  EXPECT_EQ(cache_->GrowByBlocks(unknown, 1), Outcome::kInvalid);
  EXPECT_THAT(Table(a), ElementsAre(0));
  EXPECT_TRUE(cache_->GrowByBlocks({&a, 1}, 1));
}

TEST_F(KvCacheManagerTest, SteadyStateAllocatesNoMemory) {
  KvCacheOptions options = Options(256, 4, /*prefix_caching=*/true);
  options.num_host_blocks = 64;
  Use(options);
  const Tokens tokens = Distinct(0, 200);
  const SpanTokenSource source(tokens);
  const auto round = [&] {
    SequenceId ids[4];
    for (SequenceId& id : ids) {
      id = cache_->CreateSequence();
      ASSERT_TRUE(cache_->Grow(id, 100));
      ASSERT_TRUE(cache_->RegisterComputed(id, source, 100));
    }
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(cache_->GrowByBlocks(ids, 1));
    ASSERT_TRUE(cache_->SwapOut(ids[0]));
    ASSERT_TRUE(cache_->SwapIn(ids[0]));
    for (const SequenceId id : ids) ASSERT_TRUE(cache_->DestroySequence(id));
  };
  round();
  const int64_t before = num_allocations;
  for (int i = 0; i < 10; ++i) round();
  EXPECT_EQ(num_allocations, before);
}

// ---- Fork ----

TEST_F(KvCacheManagerTest, ForkCopiesTheLastBlockWhenOneGrows) {
  Use(Options(8, 4));
  const SequenceId parent = cache_->CreateSequence();
  ASSERT_TRUE(cache_->Grow(parent, 6));
  SequenceId child;
  std::vector<BlockCopy> copies;
  ASSERT_TRUE(cache_->Fork(parent, 6, &child, &copies));
  EXPECT_THAT(copies, IsEmpty());
  EXPECT_THAT(Table(child), ElementsAre(0, 1));
  EXPECT_EQ(cache_->free_blocks(), 6);
  EXPECT_EQ(cache_->BlocksFreedBy(parent), 0);

  EXPECT_EQ(cache_->BlocksNeeded(child, 7), 1);
  EXPECT_EQ(cache_->GrowByBlocks({&child, 1}, 1), Outcome::kInvalid);
  EXPECT_EQ(cache_->RegisterComputed(child, SpanTokenSource({}), 7),
            Outcome::kInvalid);
  ASSERT_TRUE(cache_->Grow(child, 7, &copies));
  EXPECT_THAT(copies, ElementsAre(BlockCopy{1, 2}));
  EXPECT_THAT(Table(child), ElementsAre(0, 2));
  EXPECT_THAT(Table(parent), ElementsAre(0, 1));
  // The parent has its block to itself again.
  EXPECT_EQ(cache_->BlocksNeeded(parent, 7), 0);
  ASSERT_TRUE(cache_->Grow(parent, 7, &copies));
  EXPECT_EQ(copies.size(), 1);
  EXPECT_EQ(cache_->stats().shared_blocks, 1);
}

TEST_F(KvCacheManagerTest, ForkOfFullBlocksNeedsNoCopy) {
  Use(Options(3, 4));
  const SequenceId parent = cache_->CreateSequence();
  ASSERT_TRUE(cache_->Grow(parent, 8));
  SequenceId child;
  ASSERT_TRUE(cache_->Fork(parent, 8, &child));
  std::vector<BlockCopy> copies;
  ASSERT_TRUE(cache_->Grow(child, 9, &copies));
  EXPECT_THAT(copies, IsEmpty());
  EXPECT_EQ(cache_->Grow(parent, 9, &copies), Outcome::kNoSpace);
  EXPECT_EQ(cache_->CanGrow(parent, 9), Fit::kLater);
}

TEST_F(KvCacheManagerTest, ForkBelowTheParentsTokensCopiesNow) {
  Use(Options(4, 4));
  const SequenceId parent = cache_->CreateSequence();
  ASSERT_TRUE(cache_->Grow(parent, 12));
  SequenceId child;
  std::vector<BlockCopy> copies;
  ASSERT_TRUE(cache_->Fork(parent, 6, &child, &copies));
  EXPECT_THAT(copies, ElementsAre(BlockCopy{1, 3}));
  EXPECT_THAT(Table(child), ElementsAre(0, 3));
  SequenceId second;
  EXPECT_EQ(cache_->Fork(parent, 6, &second, &copies), Outcome::kNoSpace);
  EXPECT_EQ(cache_->stats().num_sequences, 2);
  EXPECT_EQ(cache_->Fork(parent, 13, &second), Outcome::kInvalid);
  EXPECT_EQ(cache_->Fork(parent, -1, &second), Outcome::kInvalid);
  ASSERT_TRUE(cache_->Fork(parent, 0, &second));
  EXPECT_EQ(cache_->num_blocks_of(second), 0);
}

TEST_F(KvCacheManagerTest, CopyCountsWhenThePoolIsFull) {
  Use(Options(2, 4));
  const SequenceId parent = cache_->CreateSequence();
  ASSERT_TRUE(cache_->Grow(parent, 6));
  SequenceId child;
  ASSERT_TRUE(cache_->Fork(parent, 6, &child));
  EXPECT_EQ(cache_->CanGrow(child, 7), Fit::kLater);
  EXPECT_EQ(cache_->Grow(child, 7), Outcome::kNoSpace);
  EXPECT_THAT(Table(child), ElementsAre(0, 1));
  ASSERT_TRUE(cache_->DestroySequence(parent));
  EXPECT_TRUE(cache_->Grow(child, 7));
}

// ---- Host tier ----

TEST_F(KvCacheManagerTest, SwapsOutAndIn) {
  KvCacheOptions options = Options(4, 4);
  options.num_host_blocks = 3;
  Use(options);
  const Tokens tokens = Distinct(0, 10);
  const SequenceId a = Start(tokens);
  std::vector<BlockCopy> copies;
  ASSERT_TRUE(cache_->SwapOut(a, &copies));
  EXPECT_THAT(copies,
              ElementsAre(BlockCopy{0, 0}, BlockCopy{1, 1}, BlockCopy{2, 2}));
  EXPECT_EQ(cache_->free_blocks(), 4);
  EXPECT_EQ(cache_->free_host_blocks(), 0);
  EXPECT_EQ(cache_->num_blocks_of(a), 0);
  EXPECT_EQ(cache_->SwapInNeed(a), 3);
  EXPECT_THAT(cache_->block_table(a), IsEmpty());
  EXPECT_EQ(cache_->Grow(a, 11), Outcome::kInvalid);
  EXPECT_THAT(
      cache_->AsStatus(Outcome::kInvalid),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("swapped out")));

  const SequenceId b = cache_->CreateSequence();
  ASSERT_TRUE(cache_->Grow(b, 8));
  EXPECT_EQ(cache_->SwapIn(a, &copies), Outcome::kNoSpace);
  EXPECT_EQ(cache_->SwapOut(b, &copies), Outcome::kNoSpace);
  EXPECT_EQ(copies.size(), 3);
  EXPECT_THAT(Table(b), ElementsAre(3, 2));
  ASSERT_TRUE(cache_->Release(b));
  copies.clear();
  ASSERT_TRUE(cache_->SwapIn(a, &copies));
  EXPECT_THAT(copies,
              ElementsAre(BlockCopy{0, 1}, BlockCopy{1, 0}, BlockCopy{2, 2}));
  EXPECT_THAT(Table(a), ElementsAre(1, 0, 2));
  EXPECT_EQ(cache_->free_host_blocks(), 3);
  // What it holds can be found again once it is registered.
  ASSERT_TRUE(cache_->RegisterComputed(a, SpanTokenSource(tokens), 10));
  EXPECT_THAT(Find(tokens).blocks, ElementsAre(1, 0));
}

TEST_F(KvCacheManagerTest, ReleaseOfASwappedSequenceFreesTheHost) {
  KvCacheOptions options = Options(4, 4);
  options.num_host_blocks = 3;
  Use(options);
  const SequenceId a = cache_->CreateSequence();
  ASSERT_TRUE(cache_->Grow(a, 9));
  ASSERT_TRUE(cache_->SwapOut(a));
  ASSERT_TRUE(cache_->Release(a));
  EXPECT_EQ(cache_->free_host_blocks(), 3);
  EXPECT_EQ(cache_->SwapInNeed(a), 0);
  EXPECT_TRUE(cache_->Grow(a, 16));
}

// ---- Sliding windows ----

TEST_F(KvCacheManagerTest, WindowGroupGivesBackWhatLeftTheWindow) {
  KvCacheOptions options = Options(20, 2);
  options.groups = {CacheGroup{0}, CacheGroup{4}};
  Use(options);
  const Tokens tokens = Distinct(0, 8);
  const SequenceId id = Start(tokens);
  EXPECT_THAT(Table(id, 0), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Table(id, 1), ElementsAre(4, 5, 6, 7));
  ASSERT_TRUE(cache_->DropOutsideWindow(id, 8));
  EXPECT_THAT(Table(id, 0), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Table(id, 1), ElementsAre(-1, -1, 6, 7));
  EXPECT_EQ(cache_->num_blocks_of(id), 6);
  // Again, or for fewer tokens, it gives back nothing.
  ASSERT_TRUE(cache_->DropOutsideWindow(id, 8));
  ASSERT_TRUE(cache_->DropOutsideWindow(id, 2));
  EXPECT_EQ(cache_->num_blocks_of(id), 6);
  SequenceId child;
  EXPECT_EQ(cache_->Fork(id, 5, &child), Outcome::kInvalid);
  ASSERT_TRUE(cache_->Fork(id, 8, &child));
  EXPECT_THAT(Table(child, 1), ElementsAre(-1, -1, 6, 7));
  ASSERT_TRUE(cache_->GrowByBlocks({&id, 1}, 1));
  EXPECT_THAT(Table(id, 0), ElementsAre(0, 1, 2, 3, 8));
  EXPECT_THAT(Table(id, 1), ElementsAre(-1, -1, 6, 7, 9));
}

TEST_F(KvCacheManagerTest, HitNeedsWhatEachGroupReads) {
  KvCacheOptions options = Options(14, 2);
  options.groups = {CacheGroup{0}, CacheGroup{4}};
  Use(options);
  const Tokens tokens = Distinct(0, 12);
  const SequenceId id = Start(tokens);
  ASSERT_TRUE(cache_->DropOutsideWindow(id, 12));
  EXPECT_THAT(Table(id, 1), ElementsAre(-1, -1, -1, -1, 10, 11));
  const PrefixHit all = Find(Distinct(0, 13));
  EXPECT_EQ(all.num_tokens, 12);
  EXPECT_THAT(all.blocks, ElementsAre(0, 1, 2, 3, 4, 5,  //
                                      -1, -1, -1, -1, 10, 11));
  const SequenceId same = cache_->CreateSequence();
  ASSERT_TRUE(cache_->Admit(same, all, 13));
  EXPECT_EQ(cache_->num_blocks_of(same), 10);
  ASSERT_TRUE(cache_->Release(same));
  // A shorter prefix needs blocks that were given back, tail first: 9, 8, 7, 6.
  EXPECT_EQ(Find(Distinct(0, 9)).num_tokens, 8);
  const SequenceId other = cache_->CreateSequence();
  ASSERT_TRUE(cache_->Grow(other, 2));
  EXPECT_EQ(cache_->stats().evictions, 2);
  EXPECT_EQ(Find(Distinct(0, 9)).num_tokens, 4);
  EXPECT_EQ(Find(Distinct(0, 13)).num_tokens, 12);
}

TEST_F(KvCacheManagerTest, StatsAddUp) {
  Use(Options(10, 4));
  const SequenceId id = Start(Distinct(0, 10));
  Start(Distinct(0, 9));
  const KvCacheStats stats = cache_->stats();
  EXPECT_EQ(stats.num_blocks, 10);
  EXPECT_EQ(stats.used_blocks, 4);
  EXPECT_EQ(stats.shared_blocks, 2);
  EXPECT_EQ(stats.cached_blocks, 2);
  EXPECT_EQ(stats.evictable_blocks, 0);
  EXPECT_EQ(stats.num_sequences, 2);
  EXPECT_EQ(stats.unfilled_slots, 2 + 3);
  EXPECT_EQ(stats.prefix_hits, 1);
  EXPECT_EQ(stats.prefix_hit_tokens, 8);
  EXPECT_EQ(stats.peak_used_blocks, 4);
  ASSERT_TRUE(cache_->Release(id));
  EXPECT_EQ(cache_->used_blocks(), 3);
  EXPECT_EQ(cache_->peak_used_blocks(), 4);
}

}  // namespace
}  // namespace interleave::cache
