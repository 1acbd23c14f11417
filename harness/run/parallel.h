// Runs work on several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace fairdraw::harness {

/// Returns the number of threads for an option `jobs`: `jobs` itself, or one per core if it is 0.
inline unsigned threads_of(unsigned jobs) {
  return jobs > 0 ? jobs : std::max(1U, std::thread::hardware_concurrency());
}

/// Calls work(i) for each i < count on `threads` new threads (0 counts as 1), in the order of i.
/// After a call throws, no further call begins; the exception is thrown again when all calls have
/// ended.
inline void in_parallel(std::size_t count, unsigned threads,
                        const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::exception_ptr failure;
  std::mutex mutex;
  const auto run = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
      next = count;
    }
  };
  std::vector<std::thread> pool;
  for (unsigned i = 0; i < std::max(1U, threads); ++i) pool.emplace_back(run);
  for (std::thread& thread : pool) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace fairdraw::harness
