#include "harness/plugin/monitor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
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

#include "harness/contract/usage_error.h"
#include "harness/plugin/how_it_ended.h"

namespace fairdraw::harness::plugin {
namespace {

// How the work went, if it came to its end. A pipe takes it whole.
struct Outcome {
  int code = 0;
  bool threw = false;
  std::array<char, 4000> what{};
};
static_assert(sizeof(Outcome) <= 4096);

int to_monitor = -1;  // in the child

// No other file: a thread that hangs may hold one of them for ever.
void flush_output() {
  std::fflush(stdout);
  std::fflush(stderr);
}

// At once: what a plugin does at exit is no part of the work.
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
    std::strncpy(outcome.what.data(), error.what(), outcome.what.size() - 1);
  }
  tell(outcome);
}

volatile sig_atomic_t worker = 0;  // NOLINT: for the handler of signals

// A terminal sends its signals to both processes; anyone else names this one alone.
void pass_on(int signal, siginfo_t* info, void* /*context*/) {
  if (info->si_code <= 0) kill(static_cast<pid_t>(worker), signal);
}

constexpr std::array<int, 4> kPassedOn = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

int wait_for(pid_t child) {
  std::array<struct sigaction, kPassedOn.size()> before{};
  struct sigaction action {};
  action.sa_sigaction = pass_on;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  worker = static_cast<sig_atomic_t>(child);
  for (std::size_t i = 0; i < before.size(); ++i) sigaction(kPassedOn[i], &action, &before[i]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  for (std::size_t i = 0; i < before.size(); ++i) sigaction(kPassedOn[i], &before[i], nullptr);
  return status;
}

}  // namespace

int monitored(const std::string& plugins, const std::function<int()>& work) {
  std::array<int, 2> files{};
  if (pipe2(files.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe");
  }
  flush_output();  // or both processes would print it
  const pid_t monitor = getpid();
  // Where who started this process ignores it, how the child ends would be lost.
  struct sigaction by_default {
  }, before{};
  by_default.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &by_default, &before);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != monitor) _exit(1);
    close(files[0]);
    to_monitor = files[1];
    work_and_tell(work);
  }
  const int fork_error = errno;
  close(files[1]);
  const int status = child < 0 ? 0 : wait_for(child);
  sigaction(SIGCHLD, &before, nullptr);
  Outcome outcome;
  const bool told = read(files[0], &outcome, sizeof(outcome)) == sizeof(outcome);
  close(files[0]);
  if (child < 0) throw std::system_error(fork_error, std::generic_category(), "fork");
  const bool stopped = WIFSIGNALED(status) && std::find(kPassedOn.begin(), kPassedOn.end(),
                                                        WTERMSIG(status)) != kPassedOn.end();
  if (!told && stopped) std::raise(WTERMSIG(status));  // by a person: it ends this process, too
  if (!told) {
    throw UsageError(
        fmt::format("{}, loaded into fairdraw's own process, {} before the run was over; what the "
                    "run had found is lost",
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
