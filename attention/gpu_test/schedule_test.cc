// The schedule that the kernels make of a batch, against the one that the same
// rules make on the host.

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "attention/kernel_params.h"
#include "attention/plan_kernels.h"
#include "attention/tile_schedule.h"
#include "cuda_runtime_api.h"
#include "gtest/gtest.h"

namespace interleave::attention {
namespace {

constexpr int kP = static_cast<int>(Role::kPrefill);
constexpr int kD = static_cast<int>(Role::kDecode);

bool HasGpu() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(int64_t size) : size_(std::max<int64_t>(size, 1)) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, Bytes()), cudaSuccess);
    data_ = static_cast<T*>(memory);
    EXPECT_EQ(cudaMemset(data_, 0xab, Bytes()), cudaSuccess);
  }
  explicit DeviceArray(const std::vector<T>& values)
      : DeviceArray(static_cast<int64_t>(values.size())) {
    EXPECT_EQ(cudaMemcpy(data_, values.data(), values.size() * sizeof(T),
                         cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  std::vector<T> First(int64_t count) const {
    std::vector<T> values(static_cast<size_t>(std::min(count, size_)));
    EXPECT_EQ(cudaMemcpy(values.data(), data_, values.size() * sizeof(T),
                         cudaMemcpyDeviceToHost),
              cudaSuccess);
    return values;
  }

 private:
  size_t Bytes() const { return static_cast<size_t>(size_) * sizeof(T); }

  const int64_t size_;
  T* data_ = nullptr;
};

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

struct Batch {
  SchedulePolicy policy;
  std::vector<int32_t> cu_q;
  std::vector<int32_t> cache;
  bool append = false;
};

// Decodes of a captured graph, with padding rows, or chunks among decodes.
Batch RandomBatch(std::mt19937& random) {
  const auto pick = [&](const std::vector<int32_t>& values) {
    return values[random() % values.size()];
  };
  Batch batch;
  batch.policy.num_kv_heads = pick({1, 2, 8});
  batch.policy.group_size = pick({1, 4, 8});
  batch.policy.window_left = pick({-1, -1, -1, 100, 1024});
  batch.policy.window_right = 0;
  batch.policy.rows[kP] = 128;
  batch.policy.rows[kD] = 16;
  batch.policy.kv[kP] = 128;
  batch.policy.kv[kD] = pick({64, 128});
  batch.policy.resident[kP] = pick({7, 132});
  batch.policy.resident[kD] = pick({7, 264});
  batch.policy.batch_invariant = random() % 4 == 0;
  batch.append = random() % 2 == 0;
  const int32_t sequences = pick({1, 3, 16, 100, 1500});
  const bool with_chunks = random() % 2 == 0;
  batch.cu_q = {0};
  for (int32_t b = 0; b < sequences; ++b) {
    batch.cu_q.push_back(batch.cu_q.back() +
                         (with_chunks ? pick({0, 1, 1, 1, 1, 40, 300}) : 1));
    batch.cache.push_back(random() % 8 == 0
                              ? pick({-1, 0, 1})
                              : static_cast<int32_t>(random() % 5000));
  }
  return batch;
}

RawLengths RawOf(const Batch& batch, const int32_t* cu_q,
                 const int32_t* cache) {
  RawLengths raw;
  raw.batch = static_cast<int32_t>(batch.cache.size());
  raw.total_q = batch.cu_q.back();
  raw.cu_seqlens_q = cu_q;
  raw.cache_seqlens = cache;
  raw.append = batch.append;
  raw.total_new = batch.append ? raw.total_q : 0;
  raw.max_seqlen_k = 1 << 16;
  return raw;
}

void ExpectSameSchedule(const Batch& batch) {
  const HostSchedule expected = BuildSchedule(
      batch.policy, RawOf(batch, batch.cu_q.data(), batch.cache.data()));
  const DeviceArray<int32_t> cu_q(batch.cu_q);
  const DeviceArray<int32_t> cache(batch.cache);
  const RawLengths raw = RawOf(batch, cu_q.data(), cache.data());
  const ScheduleBounds bounds =
      BoundsOf(batch.policy, raw.batch, std::max<int64_t>(raw.total_q, 1));
  const DeviceArray<SequenceInfo> sequences(raw.batch);
  const DeviceArray<ScheduleHeader> header(1);
  const DeviceArray<WorkItem> prefill(bounds.max_items[kP]);
  const DeviceArray<WorkItem> decode(bounds.max_items[kD]);
  const DeviceArray<CombineItem> combines(bounds.max_combines);
  const DeviceArray<int32_t> owners(raw.total_q);
  const DeviceArray<int32_t> prefill_begin(int64_t{raw.batch} + 1);
  const DeviceArray<int32_t> decode_begin(int64_t{kItemClasses} * raw.batch +
                                          1);
  const DeviceArray<int32_t> combine_begin(int64_t{raw.batch} + 1);
  const DeviceArray<int32_t> partial_begin(int64_t{raw.batch} + 1);
  ScheduleMemory memory;
  memory.sequences = sequences.data();
  memory.header = header.data();
  memory.items[kP] = prefill.data();
  memory.items[kD] = decode.data();
  memory.combines = combines.data();
  memory.token_sequence = owners.data();
  memory.item_begin[kP] = prefill_begin.data();
  memory.item_begin[kD] = decode_begin.data();
  memory.combine_begin = combine_begin.data();
  memory.partial_begin = partial_begin.data();
  for (const int r : {kP, kD}) {
    memory.max_items[r] = static_cast<int32_t>(bounds.max_items[r]);
  }
  memory.max_combines = static_cast<int32_t>(bounds.max_combines);
  memory.max_partial_rows = bounds.max_partial_rows;
  ASSERT_EQ(LaunchScheduleCount(batch.policy, raw, memory, nullptr),
            cudaSuccess);
  ASSERT_EQ(
      LaunchScheduleFill(batch.policy, raw, memory, /*num_sms=*/4, nullptr),
      cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);

  const ScheduleHeader found = header.First(1)[0];
  for (const int r : {kP, kD}) {
    EXPECT_EQ(found.chunk[r], expected.header.chunk[r]);
    ASSERT_EQ(static_cast<size_t>(found.num_items[r]),
              expected.items[r].size());
  }
  ASSERT_EQ(static_cast<size_t>(found.num_combines), expected.combines.size());
  EXPECT_EQ(TextsOf(prefill.First(found.num_items[kP])),
            TextsOf(expected.items[kP]));
  EXPECT_EQ(TextsOf(decode.First(found.num_items[kD])),
            TextsOf(expected.items[kD]));
  EXPECT_EQ(TextsOf(combines.First(found.num_combines)),
            TextsOf(expected.combines));
  if (batch.append) {
    EXPECT_EQ(owners.First(raw.total_new), expected.token_sequence);
  }
}

TEST(ScheduleTest, OfTheDeviceIsTheHosts) {
  if (!HasGpu()) GTEST_SKIP() << "no GPU";
  std::mt19937 random(20261130);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    ExpectSameSchedule(RandomBatch(random));
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace interleave::attention
