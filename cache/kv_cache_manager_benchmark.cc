// Time a block of the operations that a simulated iteration makes, on pools
// whose free list is in random order.  Each reports the time a block as
// `per_block`.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/check.h"
#include "benchmark/benchmark.h"
#include "cache/block_pool.h"
#include "cache/kv_cache_manager.h"
#include "cache/token_source.h"

namespace interleave::cache {
namespace {

constexpr int64_t kBlockSize = 16;
// Of a sequence: 1,200 tokens.
constexpr int64_t kBlocksOfSequence = 75;

void CountBlocks(benchmark::State& state, int64_t blocks_an_iteration) {
  state.counters["per_block"] = benchmark::Counter(
      static_cast<double>(state.iterations() * blocks_an_iteration),
      benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

std::vector<int32_t> Shuffled(int64_t count, std::mt19937_64& random) {
  std::vector<int32_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

// Leaves all blocks free, in random order.
void ShufflePool(BlockPool& pool, std::mt19937_64& random) {
  const std::vector<int32_t> order = Shuffled(pool.num_blocks(), random);
  std::vector<int32_t> all(order.size());
  CHECK(pool.AllocateInto(pool.num_blocks(), all.data()));
  CHECK(pool.Release(order).ok());
}

// Half of the pool is in use, in lists of 75 blocks, of which a random one
// is released and allocated anew.
void BM_PoolAllocateAndRelease(benchmark::State& state) {
  std::mt19937_64 random(1);
  BlockPool pool(state.range(0));
  ShufflePool(pool, random);
  const size_t lists =
      static_cast<size_t>(pool.num_blocks() / 2 / kBlocksOfSequence);
  std::vector<int32_t> blocks(lists * kBlocksOfSequence);
  CHECK(pool.AllocateInto(static_cast<int64_t>(blocks.size()), blocks.data()));
  std::vector<size_t> turns(4096);
  for (size_t& turn : turns) turn = random() % lists;
  size_t next = 0;
  for (auto _ : state) {
    const absl::Span<int32_t> list = absl::MakeSpan(blocks).subspan(
        turns[next++ % turns.size()] * kBlocksOfSequence, kBlocksOfSequence);
    CHECK(pool.ReleaseTailFirst(list).ok());
    CHECK(pool.AllocateInto(kBlocksOfSequence, list.data()));
  }
  CountBlocks(state, kBlocksOfSequence);
}
BENCHMARK(BM_PoolAllocateAndRelease)->Arg(65536)->Arg(1000000);

std::unique_ptr<KvCacheManager> MakeCache(int64_t num_blocks,
                                          bool prefix_caching) {
  KvCacheOptions options;
  options.num_blocks = num_blocks;
  options.block_size = kBlockSize;
  options.enable_prefix_caching = prefix_caching;
  return KvCacheManager::Create(options).value();
}

// Takes all blocks and gives them back in random order, one at a time.
void ShuffleCache(KvCacheManager& cache, std::mt19937_64& random) {
  std::vector<SequenceId> ids;
  for (int64_t i = 0; i < cache.num_blocks(); ++i) {
    ids.push_back(cache.CreateSequence());
    CHECK(cache.Grow(ids.back(), 1));
  }
  std::shuffle(ids.begin(), ids.end(), random);
  for (const SequenceId id : ids) CHECK(cache.DestroySequence(id));
}

// The same through the manager: create, grow, destroy.
void BM_SequenceGrowAndRelease(benchmark::State& state) {
  std::mt19937_64 random(1);
  const auto cache = MakeCache(state.range(0), /*prefix_caching=*/false);
  ShuffleCache(*cache, random);
  std::vector<SequenceId> ids;
  while (cache->free_blocks() > cache->num_blocks() / 2) {
    ids.push_back(cache->CreateSequence());
    CHECK(cache->Grow(ids.back(), kBlocksOfSequence * kBlockSize));
  }
  std::vector<size_t> turns(4096);
  for (size_t& turn : turns) turn = random() % ids.size();
  size_t next = 0;
  for (auto _ : state) {
    SequenceId& id = ids[turns[next++ % turns.size()]];
    cache->DestroySequence(id);
    id = cache->CreateSequence();
    CHECK(cache->Grow(id, kBlocksOfSequence * kBlockSize));
  }
  CountBlocks(state, kBlocksOfSequence);
}
BENCHMARK(BM_SequenceGrowAndRelease)->Arg(65536)->Arg(1000000);

// Four decodes that cross a block boundary in one iteration; every 64th time
// they start anew, so a release is part of it.
void BM_GrowByOneBlock(benchmark::State& state) {
  std::mt19937_64 random(1);
  const auto cache = MakeCache(state.range(0), /*prefix_caching=*/false);
  ShuffleCache(*cache, random);
  std::vector<SequenceId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(cache->CreateSequence());
  int64_t blocks = 0;
  for (auto _ : state) {
    if (++blocks % 64 == 0) {
      for (const SequenceId id : ids) cache->Release(id);
    }
    CHECK(cache->GrowByBlocks(ids, 1));
  }
  CountBlocks(state, static_cast<int64_t>(ids.size()));
}
BENCHMARK(BM_GrowByOneBlock)->Arg(65536)->Arg(1000000);

// The tokens of sequence `list`, all different from those of others.  They are
// made when they are read, as a simulator does, so that what is measured is the
// cache's own memory.
class MadeTokens final : public TokenSource {
 public:
  explicit MadeTokens(size_t list)
      : first_(static_cast<uint32_t>(list) * 4096) {}
  void Read(int64_t begin, absl::Span<int32_t> out) const override {
    uint32_t next = first_ + static_cast<uint32_t>(begin);
    for (int32_t& token : out) {
      token = static_cast<int32_t>(next++ * 2654435761u >> 1);
    }
  }

 private:
  uint32_t first_;
};

// Sequences of 75 blocks until the pool is full of cached blocks in random
// places.
class FullIndex {
 public:
  explicit FullIndex(int64_t num_blocks)
      : cache_(MakeCache(num_blocks, /*prefix_caching=*/true)) {
    std::mt19937_64 random(1);
    ShuffleCache(*cache_, random);
    const int64_t lists = num_blocks / kBlocksOfSequence;
    for (int64_t i = 0; i < lists; ++i) {
      const SequenceId id = cache_->CreateSequence();
      CHECK(cache_->Grow(id, kBlocksOfSequence * kBlockSize));
      CHECK(cache_->RegisterComputed(id, MadeTokens(static_cast<size_t>(i)),
                                     kBlocksOfSequence * kBlockSize));
      CHECK(cache_->DestroySequence(id));
    }
    turns_ = Shuffled(lists, random);
  }

  KvCacheManager& cache() { return *cache_; }
  MadeTokens Tokens(size_t turn) const {
    return MadeTokens(static_cast<size_t>(turns_[turn % turns_.size()]));
  }

 private:
  std::unique_ptr<KvCacheManager> cache_;
  std::vector<int32_t> turns_;
};

// Hash, find and verify, of sequences in random order.
void BM_FindPrefix(benchmark::State& state) {
  FullIndex full(state.range(0));
  size_t next = 0;
  for (auto _ : state) {
    const MadeTokens source = full.Tokens(next++);
    const PrefixHit hit =
        full.cache().FindPrefix(source, kBlocksOfSequence * kBlockSize);
    CHECK_EQ(hit.num_blocks, kBlocksOfSequence - 1);
  }
  CountBlocks(state, kBlocksOfSequence - 1);
}
BENCHMARK(BM_FindPrefix)->Arg(2048)->Arg(65536)->Arg(1000000);

// The same for a request that keeps what it found the last time.
void BM_FindPrefixAgain(benchmark::State& state) {
  FullIndex full(state.range(0));
  std::vector<BlockHashes> hashes(256);
  size_t next = 0;
  for (auto _ : state) {
    const size_t i = next++ % hashes.size();
    const MadeTokens source = full.Tokens(i);
    const PrefixHit hit = full.cache().FindPrefix(
        source, kBlocksOfSequence * kBlockSize, {}, hashes[i]);
    CHECK_EQ(hit.num_blocks, kBlocksOfSequence - 1);
  }
  CountBlocks(state, kBlocksOfSequence - 1);
}
BENCHMARK(BM_FindPrefixAgain)->Arg(65536)->Arg(1000000);

// Admit with a full hit, then release: touch and release of cached blocks.
void BM_AdmitAndRelease(benchmark::State& state) {
  FullIndex full(state.range(0));
  KvCacheManager& cache = full.cache();
  std::vector<PrefixHit> hits(64);
  for (size_t i = 0; i < hits.size(); ++i) {
    hits[i] = cache.FindPrefix(full.Tokens(i), kBlocksOfSequence * kBlockSize);
  }
  size_t next = 0;
  for (auto _ : state) {
    const SequenceId id = cache.CreateSequence();
    CHECK(cache.Acquire(id, hits[next++ % hits.size()]));
    cache.DestroySequence(id);
  }
  CountBlocks(state, kBlocksOfSequence - 1);
}
BENCHMARK(BM_AdmitAndRelease)->Arg(65536)->Arg(1000000);

// Grow, register and release where every block taken evicts another.  A salt
// makes each sequence's content a new one.
void BM_GrowRegisterEvict(benchmark::State& state) {
  FullIndex full(state.range(0));
  KvCacheManager& cache = full.cache();
  int64_t salt = 0;
  size_t next = 0;
  const auto grow_and_release = [&] {
    const SequenceId id = cache.CreateSequence();
    CHECK(cache.Grow(id, kBlocksOfSequence * kBlockSize));
    ++salt;
    CHECK(cache.RegisterComputed(id, full.Tokens(next++),
                                 kBlocksOfSequence * kBlockSize, {&salt, 1}));
    cache.DestroySequence(id);
  };
  // The first extra keys ever make room for those of all blocks.
  grow_and_release();
  for (auto _ : state) grow_and_release();
  CountBlocks(state, kBlocksOfSequence);
}
BENCHMARK(BM_GrowRegisterEvict)->Arg(65536)->Arg(1000000);

}  // namespace
}  // namespace interleave::cache

BENCHMARK_MAIN();
