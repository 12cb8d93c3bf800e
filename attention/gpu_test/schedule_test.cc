// The schedule that the kernels make of a batch, against the one that the same
// rules make on the host.

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "attention/gpu_test/test_case.h"
#include "attention/kernel_params.h"
#include "attention/plan_kernels.h"
#include "attention/random_batch_testing.h"
#include "attention/tile_schedule.h"
#include "base/arena.h"
#include "cuda_runtime_api.h"
#include "gtest/gtest.h"

namespace interleave::attention {
namespace {

constexpr int64_t kDeviceMemory = int64_t{1} << 29;

template <typename T>
std::vector<T> Download(const T* data, int64_t count) {
  std::vector<T> values(static_cast<size_t>(count));
  CheckCuda(cudaMemcpy(values.data(), data, values.size() * sizeof(T),
                       cudaMemcpyDeviceToHost),
            "cudaMemcpy");
  return values;
}

std::string TextOf(const WorkItem& i) {
  return absl::StrCat(i.batch, " head ", i.kv_head, " rows ", i.row_begin, "+",
                      i.row_count, " keys ", i.kv_begin, "..", i.kv_end,
                      " partial ", i.partial_row, " split ", i.split);
}
std::string TextOf(const CombineItem& i) {
  return absl::StrCat(i.batch, " head ", i.kv_head, " rows ", i.row_begin, "+",
                      i.row_count, " partial ", i.partial_row, " of ",
                      i.num_splits);
}
template <typename T>
std::vector<std::string> TextsOf(const std::vector<T>& items) {
  std::vector<std::string> texts;
  for (const T& item : items) texts.push_back(TextOf(item));
  return texts;
}

// In device memory that holds other things before.
ScheduleMemory MemoryFor(const ScheduleBounds& bounds, const RawLengths& raw,
                         DeviceArena& device) {
  Arena counts(nullptr);
  TakeScheduleMemory(bounds, raw.batch, raw.total_new, &counts);
  void* const base = device.Take(counts.size());
  CheckCuda(cudaMemset(base, 0xab, static_cast<size_t>(counts.size())),
            "cudaMemset");
  Arena arena(base);
  return TakeScheduleMemory(bounds, raw.batch, raw.total_new, &arena);
}

void ExpectSameSchedule(const RandomBatch& batch, DeviceArena& device) {
  const HostSchedule expected = BuildSchedule(batch.policy, batch.raw);
  RawLengths raw = batch.raw;
  raw.cu_seqlens_q = device.Upload(batch.cu_q);
  raw.cache_seqlens = device.Upload(batch.cache);
  const ScheduleMemory memory =
      MemoryFor(BoundsOf(batch.policy, raw.batch, raw.total_q), raw, device);
  ASSERT_EQ(LaunchScheduleCount(batch.policy, raw, memory, nullptr),
            cudaSuccess);
  ASSERT_EQ(
      LaunchScheduleFill(batch.policy, raw, memory, /*num_sms=*/4, nullptr),
      cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);

  const ScheduleHeader found = Download(memory.header, 1)[0];
  for (int r = 0; r < kNumRoles; ++r) {
    EXPECT_EQ(found.chunk[r], expected.header.chunk[r]);
    ASSERT_EQ(static_cast<size_t>(found.num_items[r]),
              expected.items[r].size());
    EXPECT_EQ(TextsOf(Download(memory.items[r], found.num_items[r])),
              TextsOf(expected.items[r]));
  }
  ASSERT_EQ(static_cast<size_t>(found.num_combines), expected.combines.size());
  EXPECT_EQ(TextsOf(Download(memory.combines, found.num_combines)),
            TextsOf(expected.combines));
  if (raw.append) {
    EXPECT_EQ(Download(memory.token_sequence, raw.total_new),
              expected.token_sequence);
  }
}

TEST(ScheduleTest, OfTheDeviceIsTheHosts) {
  if (!HasGpu()) GTEST_SKIP() << "no GPU of compute capability 8.0 or later";
  DeviceArena device(kDeviceMemory);
  std::mt19937 random(20261130);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    RandomBatch batch;
    MakeRandomBatch(random, {1, 3, 16, 100, 1500}, &batch);
    // Of any length, too.
    for (int32_t& cached : batch.cache) {
      if (random() % 2 == 0) cached = static_cast<int32_t>(random() % 5000);
    }
    device.Reset();
    ExpectSameSchedule(batch, device);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace interleave::attention
