// Random batches for tests of schedules.

#ifndef ATTENTION_RANDOM_BATCH_TESTING_H_
#define ATTENTION_RANDOM_BATCH_TESTING_H_

#include <cstdint>
#include <random>
#include <vector>

#include "attention/kernel_params.h"
#include "attention/tile_schedule.h"

namespace interleave::attention {

// Lengths of a batch and what its schedule depends on besides.
struct RandomBatch {
  SchedulePolicy policy;
  std::vector<int32_t> cu_q;
  std::vector<int32_t> cache;
  RawLengths raw;  // refers to the lengths
};

// Of a number of sequences that is one of `batches`: decodes, chunks, empty
// sequences and padding rows.
inline void MakeRandomBatch(std::mt19937& random,
                            const std::vector<int32_t>& batches,
                            RandomBatch* out) {
  const auto pick = [&](const std::vector<int32_t>& values) {
    return values[random() % values.size()];
  };
  out->policy.num_kv_heads = pick({1, 2, 3, 8});
  out->policy.group_size = pick({1, 3, 4, 8, 16, 24, 71});
  out->policy.window_left = pick({-1, -1, 0, 1, 63, 64, 333});
  out->policy.window_right = pick({-1, 0, 0, 0, 5, 64});
  out->policy.rows[static_cast<int>(Role::kPrefill)] = pick({64, 128});
  out->policy.rows[static_cast<int>(Role::kDecode)] = pick({16, 64});
  out->policy.kv[static_cast<int>(Role::kPrefill)] = pick({32, 64, 128});
  out->policy.kv[static_cast<int>(Role::kDecode)] = pick({64, 128});
  out->policy.resident[static_cast<int>(Role::kPrefill)] =
      pick({1, 7, 132, 264});
  out->policy.resident[static_cast<int>(Role::kDecode)] =
      pick({1, 7, 132, 528});
  out->policy.batch_invariant = random() % 3 == 0;
  const int32_t batch = pick(batches);
  out->cu_q = {0};
  out->cache.clear();
  for (int32_t b = 0; b < batch; ++b) {
    out->cu_q.push_back(out->cu_q.back() +
                        pick({0, 1, 1, 1, 2, 8, 17, 127, 129, 300}));
    out->cache.push_back(
        pick({-1, 0, 1, 15, 16, 63, 64, 65, 1000, 4090, 20000}));
  }
  out->raw = RawLengths();
  out->raw.batch = batch;
  out->raw.total_q = out->cu_q.back();
  out->raw.cu_seqlens_q = out->cu_q.data();
  out->raw.cache_seqlens = out->cache.data();
  out->raw.append = random() % 2 == 0;
  out->raw.total_new = out->raw.total_q;
  out->raw.max_seqlen_k = 1 << 20;
}

}  // namespace interleave::attention

#endif  // ATTENTION_RANDOM_BATCH_TESTING_H_
