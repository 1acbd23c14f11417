#include "suites/command/stoppable_run.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "harness/plugin/monitor.h"
#include "suites/command/output.h"
#include "suites/command/signals.h"

namespace fairdraw::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Key = std::pair<std::string, std::string>;

Key key_of(const harness::CaseRecord& record) { return {record.id, record.sampler}; }

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Data that the run's thread and the waiting thread share. The data live as long as one of the
// threads.
struct Shared {
  std::mutex mutex;
  std::condition_variable ended;
  std::map<Key, harness::CaseRecord> finished;
  bool closed = false;  ///< true if further cases are no longer recorded or shown
  std::optional<harness::RunRecord> record;
  std::exception_ptr failure;
};

// Returns a record of the cases that have finished, in the order of the plan.
harness::RunRecord record_so_far(const suites::Plan& plan, harness::RunRecord begun,
                                 Shared& shared) {
  std::vector<harness::CaseRecord> cases;
  for (const harness::Job& job : plan.jobs) {
    const auto found = shared.finished.find(key_of(job.record));
    if (found != shared.finished.end()) cases.push_back(std::move(found->second));
  }
  return suites::record_of(plan, std::move(begun), std::move(cases), stop_reason());
}

}  // namespace

StoppableRun run_until_signal(const suites::Plan& plan, const suites::PlanOptions& options,
                              unsigned threads, const harness::Progress& progress) {
  const Clock::time_point start = Clock::now();
  harness::RunRecord begun = suites::begin_record(plan, options);
  const auto shared = std::make_shared<Shared>();
  suites::PlanOptions stoppable = options;
  stoppable.stop = [stop = options.stop] {
    const std::string reason = stop_reason();
    return reason.empty() && stop ? stop() : reason;
  };
  const auto show = [shared, progress](const harness::CaseRecord& record, std::size_t done,
                                       std::size_t all) {
    const std::lock_guard lock(shared->mutex);
    if (shared->closed) return;
    shared->finished.emplace(key_of(record), record);
    if (progress) progress(record, done, all);
  };
  std::thread run([&plan, stoppable, threads, show, shared] {
    std::optional<harness::RunRecord> record;
    std::exception_ptr failure;
    try {
      record = suites::run_plan(plan, stoppable, threads, show);
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(shared->mutex);
    shared->record = std::move(record);
    shared->failure = failure;
    shared->ended.notify_all();
  });

  std::unique_lock lock(shared->mutex);
  const auto has_ended = [&shared] { return shared->record || shared->failure; };
  // A signal handler cannot notify a waiting thread, so the flag is polled every 50 ms, which
  // nobody notices.
  constexpr std::chrono::milliseconds kLook{50};
  std::optional<Clock::time_point> asked;
  while (!shared->ended.wait_for(lock, kLook, has_ended)) {
    if (!asked && !stop_reason().empty()) asked = Clock::now();
    if (!asked || seconds_since(*asked) < kSecondsToEnd) continue;
    shared->closed = true;
    run.detach();
    StoppableRun result{record_so_far(plan, std::move(begun), *shared), true};
    result.record.seconds = seconds_since(start);
    return result;
  }
  lock.unlock();
  run.join();
  if (shared->failure) std::rethrow_exception(shared->failure);
  return {std::move(*shared->record), false};
}

void end_process(int code) { harness::plugin::end_work(end_of_output(code)); }

EndsWithItsReader::EndsWithItsReader() {
  if (pipe2(over_.data(), O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe");
  }
  watch_ = std::thread([over = over_[0]] {
    // poll() always reports a pipe without readers, a closed socket and a terminal that has hung
    // up.
    std::array<pollfd, 2> files = {{{STDOUT_FILENO, 0, 0}, {over, 0, 0}}};
    while (poll(files.data(), files.size(), -1) < 0 && errno == EINTR) {
    }
    if (files[1].revents == 0 && (files[0].revents & POLLNVAL) == 0) {
      harness::plugin::end_work(kExitReaderGone);
    }
  });
}

EndsWithItsReader::~EndsWithItsReader() {
  close(over_[1]);
  watch_.join();
  close(over_[0]);
}

}  // namespace fairdraw::cli
