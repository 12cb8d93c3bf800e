// ParallelFor: the same function for 0 .. n - 1, on several threads.

#ifndef BASE_PARALLEL_FOR_H_
#define BASE_PARALLEL_FOR_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace interleave {

// Calls `work` once for each of 0 .. n - 1, handed out in this order to at most
// `num_threads` threads (0: as many as the machine runs at a time), and returns
// when all are done.
inline void ParallelFor(size_t n, size_t num_threads,
                        const std::function<void(size_t)>& work) {
  if (num_threads == 0) {
    num_threads = std::max<size_t>(1, std::thread::hardware_concurrency());
  }
  std::atomic<size_t> next = 0;
  const auto run = [&] {
    for (size_t i; (i = next.fetch_add(1)) < n;) work(i);
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min(n, num_threads); ++i)
    threads.emplace_back(run);
  run();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace interleave

#endif  // BASE_PARALLEL_FOR_H_
