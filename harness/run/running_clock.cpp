#include "harness/run/running_clock.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <mutex>
#include <thread>

namespace fairdraw::harness {
namespace {

using Steady = std::chrono::steady_clock;

class Heart {
 public:
  bool beats_here() const {
    return process_ == getpid();
  }  // false after a fork, because a forked process lacks its parent's thread

  RunningClock::time_point now() {
    const std::lock_guard lock(mutex_);
    return RunningClock::time_point(sum_ + RunningClock::counted(Steady::now() - last_));
  }

  void start() {
    // The clock's thread blocks all signals, because other threads expect them.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([this] { beat(); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

 private:
  [[noreturn]] void beat() {
    for (;;) {
      std::this_thread::sleep_for(RunningClock::kBeat);
      const std::lock_guard lock(mutex_);
      const Steady::time_point here = Steady::now();
      sum_ += RunningClock::counted(here - last_);
      last_ = here;
    }
  }

  const pid_t process_ = getpid();
  std::mutex mutex_;
  RunningClock::duration sum_{};
  Steady::time_point last_ = Steady::now();
};

// Returns the heart of the clock, which is never destroyed, because its thread uses it until the
// process ends.
Heart& heart() {
  static std::atomic<Heart*> known = nullptr;
  Heart* of_now = known;
  while (of_now == nullptr || !of_now->beats_here()) {
    auto* const fresh = new Heart;  // NOLINT(cppcoreguidelines-owning-memory)
    if (known.compare_exchange_strong(of_now, fresh)) {
      fresh->start();
      return *fresh;
    }
    delete fresh;  // NOLINT(cppcoreguidelines-owning-memory)
  }
  return *of_now;
}

}  // namespace

RunningClock::time_point RunningClock::now() { return heart().now(); }

}  // namespace fairdraw::harness
