#include "suites/command/signals.h"

#include <atomic>
#include <cstdint>
#include <ctime>

namespace fairdraw::cli {
namespace {

// A handler can reach nothing else.
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<int> stopped_by = 0;
std::atomic<std::int64_t> first_came_at = 0;  // nanoseconds
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)
static_assert(std::atomic<int>::is_always_lock_free);  // what a handler may touch
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

std::int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);  // which a handler may call
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void ask_for_an_end(int signal) {
  // One signal to a group of processes comes twice where the process above passes it on, too.
  constexpr std::int64_t kOneSignal = 200'000'000;
  int none = 0;
  std::int64_t unset = 0;
  first_came_at.compare_exchange_strong(unset, now());  // before another can come between
  if (stopped_by.compare_exchange_strong(none, signal)) return;
  if (now() - first_came_at < kOneSignal) return;
  // The second one. It is blocked while this handler runs, and delivered when it returns.
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

std::vector<int> not_ignored(const std::vector<int>& signals) {
  std::vector<int> result;
  for (const int signal : signals) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) result.push_back(signal);  // NOLINT: a macro with a cast
  }
  return result;
}

}  // namespace

HandledSignals::HandledSignals(const std::vector<int>& signals, void (*handler)(int)) {
  for (const int signal : signals) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;  // reads and waits of other threads go on
    Before& before = before_.emplace_back();
    before.signal = signal;
    sigaction(signal, &action, &before.action);
  }
}

HandledSignals::~HandledSignals() {
  for (const Before& before : before_) sigaction(before.signal, &before.action, nullptr);
}

// Nothing asks for an end yet: forgotten before the handlers are there, which may be called at
// once.
StopSignals::Fresh::Fresh() {
  stopped_by = 0;
  first_came_at = 0;
}

StopSignals::StopSignals() : signals_(not_ignored({SIGINT, SIGTERM, SIGHUP}), ask_for_an_end) {}

std::string stop_reason() {
  switch (stopped_by.load()) {
    case 0:
      return {};
    case SIGINT:
      return "stopped by SIGINT";
    case SIGTERM:
      return "stopped by SIGTERM";
    default:
      return "stopped by SIGHUP";
  }
}

}  // namespace fairdraw::cli
