#include "harness/plugin/keeper.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "harness/plugin/how_it_ended.h"
#include "harness/run/running_clock.h"

namespace fairdraw::harness::plugin {
namespace {

// Lists the processes whose parent is `parent` now.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  // A /proc of another process namespace cannot be used, because its numbers mean other processes.
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self", error);
  if (error || self != std::to_string(getpid())) return children;
  // The loop uses increment(), because operator++ throws.
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry->path() / "stat");
    std::string line;
    std::getline(file, line);
    // The line is "pid (name) state parent ...", and the name may contain any characters.
    const std::size_t after_name = line.rfind(") ");
    constexpr std::size_t kToParent = 4;
    if (after_name == std::string::npos || after_name + kToParent >= line.size()) continue;
    if (std::atol(line.c_str() + after_name + kToParent) == parent) {
      children.push_back(static_cast<pid_t>(std::atol(name.c_str())));
    }
  }
  return children;
}

// Ends all descendants of this process. Orphaned processes become children of this process because
// it is their subreaper, so each round ends the processes that the last round orphaned. The
// function gives up after 10 s, in case processes start others faster than they are found.
void end_descendants() {
  using Steady = std::chrono::steady_clock;
  RunningClock::duration left = std::chrono::seconds(10);
  for (Steady::time_point before = Steady::now(); left.count() > 0;) {
    const Steady::time_point now = Steady::now();
    left -= RunningClock::counted(now - std::exchange(before, now));
    const pid_t reaped = waitpid(-1, nullptr, WNOHANG);
    if (reaped > 0) continue;
    if (reaped < 0 && errno == ECHILD) return;
    for (const pid_t child : children_of(getpid())) kill(child, SIGKILL);
    poll(nullptr, 0, 1);
  }
}

// Waits until the child is gone or the judge closes the stream `leash`.
void wait_for_the_end(pid_t child, int leash) {
  const int gone = file_of_process(child);
  constexpr int kTick = 20;  // milliseconds; used only if the system has no files for processes
  pollfd files[] = {{leash, POLLRDHUP, 0}, {gone, POLLIN, 0}};
  for (;;) {
    const int ready = poll(files, 2, gone >= 0 ? -1 : kTick);
    if (ready > 0) return;
    siginfo_t info{};
    constexpr int kLook = WEXITED | WNOHANG | WNOWAIT;
    const bool looked = waitid(P_PID, static_cast<id_t>(child), &info, kLook) == 0;
    if (looked && info.si_pid == child) return;
  }
}

[[noreturn]] void keep(pid_t child, int leash) noexcept {
  wait_for_the_end(child, leash);
  kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  end_descendants();
  send(leash, &status, sizeof(status), MSG_NOSIGNAL);
  _exit(0);
}

}  // namespace

bool fork_under_a_keeper(int leash, std::initializer_list<int> of_child) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t keeper = getpid();
  const pid_t child = fork();
  if (child < 0) return false;
  if (child > 0) {
    setsid();  // so that signals to the child's group do not reach the keeper
    for (const int file : of_child) close(file);
    keep(child, leash);
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != keeper) _exit(0);
  close(leash);
  return true;
}

}  // namespace fairdraw::harness::plugin
