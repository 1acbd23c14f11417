#include "suites/command/signals.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <ctime>
#include <span>

#include "reports/pending_file.h"

namespace fairdraw::cli {
namespace {

// Globals, because a handler can reach nothing else.
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<int> stopped_by = 0;
std::atomic<std::int64_t> first_came_at = 0;  // nanoseconds
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)
static_assert(std::atomic<int>::is_always_lock_free);  // required in handlers
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

std::int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);  // async-signal-safe
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Ends the process by the signal's default action. The signal is blocked while its handler runs,
// and is delivered when the handler returns.
void end_at_once(int signal) {
  reports::remove_pending_files();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void ask_for_an_end(int signal) {
  // A signal to a process group arrives twice if the parent process also passes it on.
  constexpr std::int64_t kOneSignal = 200'000'000;
  int none = 0;
  std::int64_t unset = 0;
  // the time is set before another signal can interrupt
  first_came_at.compare_exchange_strong(unset, now());
  if (stopped_by.compare_exchange_strong(none, signal)) return;
  if (now() - first_came_at < kOneSignal) return;
  end_at_once(signal);  // the second one
}

bool is_ignored(const struct sigaction& action) {
  return action.sa_handler == SIG_IGN;  // NOLINT: a macro with a cast
}

bool is_default(const struct sigaction& action) {
  return action.sa_handler == SIG_DFL;  // NOLINT: a macro with a cast
}

std::vector<int> those(std::span<const int> signals, bool (*wanted)(const struct sigaction&)) {
  std::vector<int> result;
  for (const int signal : signals) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (wanted(action)) result.push_back(signal);
  }
  return result;
}

constexpr std::array kStops = {SIGINT, SIGTERM, SIGHUP};
constexpr std::array kEnds = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGXCPU};

sigset_t set_of_stops() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : kStops) sigaddset(&signals, signal);
  return signals;
}

}  // namespace

HandledSignals::HandledSignals(const std::vector<int>& signals, void (*handler)(int)) {
  for (const int signal : signals) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;  // reads and waits of other threads continue after a signal
    Before& before = before_.emplace_back();
    before.signal = signal;
    sigaction(signal, &action, &before.action);
  }
}

HandledSignals::~HandledSignals() {
  for (const Before& before : before_) sigaction(before.signal, &before.action, nullptr);
}

// Earlier requests to stop are cleared before the handlers are installed, because a handler may be
// called at once.
StopSignals::Fresh::Fresh() {
  stopped_by = 0;
  first_came_at = 0;
}

StopSignals::StopSignals()
    : signals_(those(kStops, [](const struct sigaction& action) { return !is_ignored(action); }),
               ask_for_an_end) {
  let_signals_in();
}

SignalsTakeAlong::SignalsTakeAlong() : signals_(those(kEnds, is_default), end_at_once) {}

HeldSignals::HeldSignals() {
  const sigset_t stops = set_of_stops();
  pthread_sigmask(SIG_BLOCK, &stops, &before_);
}

HeldSignals::~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void let_signals_in() {
  const sigset_t stops = set_of_stops();
  pthread_sigmask(SIG_UNBLOCK, &stops, nullptr);
}

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
