#include "harness/plugin/monitor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <system_error>

#include "harness/contract/error_text.h"
#include "harness/contract/usage_error.h"
#include "harness/plugin/how_it_ended.h"
#include "harness/plugin/keeper.h"

namespace fairdraw::harness::plugin {
namespace {

// The result of work that ended by itself, and was not ended by a crash or exit(). A pipe transfers
// the struct in one piece.
struct Outcome {
  int code = 0;
  bool threw = false;
  std::array<char, 4000> what{};
};
static_assert(sizeof(Outcome) <= 4096);

int to_monitor = -1;  // the pipe on which the child writes to the monitor

// Only these files are flushed, because a thread that hangs may hold the lock of another file for
// ever.
void flush_output() {
  std::fflush(stdout);
  std::fflush(stderr);
}

// Sends the outcome and exits at once, because the plugin's exit handlers are not part of the work.
[[noreturn]] void tell(const Outcome& outcome) {
  flush_output();
  if (to_monitor < 0) _exit(outcome.code);
  const bool told = write(to_monitor, &outcome, sizeof(outcome)) == sizeof(outcome);
  _exit(told ? outcome.code : 1);
}

[[noreturn]] void work_and_tell(const std::function<int()>& work) {
  Outcome outcome;
  try {
    outcome.code = work();
  } catch (const std::exception& error) {
    outcome.threw = true;
    std::strncpy(outcome.what.data(), error_text(error).c_str(), outcome.what.size() - 1);
  }
  tell(outcome);
}

volatile sig_atomic_t worker = 0;  // NOLINT: for the handler of signals

// Passes a signal on to the worker process. Signals from a terminal reach both processes anyway;
// all other signals reach only this process.
void pass_on(int signal, siginfo_t* info, void* /*context*/) {
  if (info->si_code <= 0) kill(static_cast<pid_t>(worker), signal);
}

constexpr std::array<int, 4> kPassedOn = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

// A guard that blocks or unblocks, in this thread and during its lifetime, the signals that are
// passed on.
class SignalMask {
 public:
  explicit SignalMask(int how) {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : kPassedOn) sigaddset(&signals, signal);
    pthread_sigmask(how, &signals, &before_);
  }
  ~SignalMask() { put_back(); }
  SignalMask(const SignalMask&) = delete;
  SignalMask& operator=(const SignalMask&) = delete;

  void put_back() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

// Waits until the keeper has ended, and returns the exit status of the worker process.
int wait_for(pid_t keeper, int leash) {
  int status = 0, of_keeper = 0;
  const bool said = recv(leash, &status, sizeof(status), MSG_WAITALL) == sizeof(status);
  while (waitpid(keeper, &of_keeper, 0) < 0 && errno == EINTR) {
  }
  return said ? status : of_keeper;
}

// Waits for the worker process. The worker first sends its process id; from then on, this process
// passes signals to the worker.
int wait_for(pid_t keeper, int leash, int from_worker) {
  pollfd file{from_worker, POLLIN, 0};
  while (poll(&file, 1, -1) < 0 && errno == EINTR) {
  }
  pid_t process = -1;
  if (read(from_worker, &process, sizeof(process)) != sizeof(process)) {
    return wait_for(keeper, leash);
  }
  std::array<struct sigaction, kPassedOn.size()> before{};
  struct sigaction action {};
  action.sa_sigaction = pass_on;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  worker = static_cast<sig_atomic_t>(process);
  for (std::size_t i = 0; i < before.size(); ++i) sigaction(kPassedOn[i], &action, &before[i]);
  int status = 0;
  {
    const SignalMask open(SIG_UNBLOCK);
    status = wait_for(keeper, leash);
  }
  for (std::size_t i = 0; i < before.size(); ++i) sigaction(kPassedOn[i], &before[i], nullptr);
  return status;
}

// The two ends of the stream to the keeper: the parent's and the child's.
using Pair = std::array<int, 2>;

// Forks the worker process, in a child of the monitor. This function does not return, neither in
// the worker nor in the monitor.
[[noreturn]] void start_worker(const Pair& outcome, const Pair& leash, const SignalMask& signals,
                               const std::function<int()>& work) {
  close(outcome[0]);
  close(leash[0]);
  if (!fork_under_a_keeper(leash[1], {STDOUT_FILENO, STDERR_FILENO, outcome[1]})) _exit(1);
  signals.put_back();
  to_monitor = outcome[1];
  const pid_t process = getpid();
  if (write(to_monitor, &process, sizeof(process)) != sizeof(process)) _exit(1);
  work_and_tell(work);
}

}  // namespace

int monitored(const std::string& plugins, const std::function<int()>& work) {
  Pair files{}, leash{};
  if (pipe2(files.data(), O_CLOEXEC | O_NONBLOCK) != 0 ||
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, leash.data()) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe");
  }
  flush_output();                       // otherwise both processes would print the buffered output
  const SignalMask blocked(SIG_BLOCK);  // because a signal that arrives now is meant for the worker
  // If this process had inherited an ignored SIGCHLD, the child's status would be lost.
  struct sigaction by_default {
  }, before{};
  by_default.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &by_default, &before);
  const pid_t keeper = fork();
  if (keeper == 0) start_worker(files, leash, blocked, work);
  const int fork_error = errno;
  for (const Pair& pair : {files, leash}) close(pair[1]);
  const int status = keeper < 0 ? 0 : wait_for(keeper, leash[0], files[0]);
  sigaction(SIGCHLD, &before, nullptr);
  Outcome outcome;
  const bool told = read(files[0], &outcome, sizeof(outcome)) == sizeof(outcome);
  for (const Pair& pair : {files, leash}) close(pair[0]);
  if (keeper < 0) throw std::system_error(fork_error, std::generic_category(), "fork");
  const bool stopped = WIFSIGNALED(status) && std::find(kPassedOn.begin(), kPassedOn.end(),
                                                        WTERMSIG(status)) != kPassedOn.end();
  if (!told && stopped) {  // a person stopped the worker, so this process ends too
    blocked.put_back();
    std::raise(WTERMSIG(status));
  }
  if (!told) {
    throw UsageError(
        fmt::format("{}, loaded into fairdraw's own process, {} before the end of the run; the "
                    "results of the run are lost",
                    plugins, how_it_ended(status)));
  }
  if (outcome.threw) throw UsageError(outcome.what.data());
  return outcome.code;
}

void end_work(int code) {
  Outcome outcome;
  outcome.code = code;
  tell(outcome);
}

}  // namespace fairdraw::harness::plugin
