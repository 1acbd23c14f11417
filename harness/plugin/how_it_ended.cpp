#include "harness/plugin/how_it_ended.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <utility>

namespace fairdraw::harness::plugin {

std::string signal_name(int signal) {
  // The signals that can end a process. The C library glibc has names for them since version 2.32,
  // but wheels must run with 2.28.
  constexpr std::pair<int, const char*> kNames[] = {
      {SIGABRT, "SIGABRT"},     {SIGALRM, "SIGALRM"}, {SIGBUS, "SIGBUS"},      {SIGFPE, "SIGFPE"},
      {SIGHUP, "SIGHUP"},       {SIGILL, "SIGILL"},   {SIGINT, "SIGINT"},      {SIGIO, "SIGIO"},
      {SIGKILL, "SIGKILL"},     {SIGPIPE, "SIGPIPE"}, {SIGPROF, "SIGPROF"},    {SIGPWR, "SIGPWR"},
      {SIGQUIT, "SIGQUIT"},     {SIGSEGV, "SIGSEGV"}, {SIGSYS, "SIGSYS"},      {SIGTERM, "SIGTERM"},
      {SIGTRAP, "SIGTRAP"},     {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"},    {SIGXCPU, "SIGXCPU"},
      {SIGVTALRM, "SIGVTALRM"}, {SIGXFSZ, "SIGXFSZ"}, {SIGSTKFLT, "SIGSTKFLT"}};
  for (const auto& [number, name] : kNames) {
    if (number == signal) return name;
  }
  return fmt::format("signal {}", signal);
}

int file_of_process(pid_t process) {
  constexpr long kPidfdOpen = 434;  // SYS_pidfd_open of Linux 5.3, which headers may not have
  return static_cast<int>(syscall(kPidfdOpen, process, 0));
}

std::string how_it_ended(int status) {
  if (WIFEXITED(status))
    return fmt::format("ended its process with exit code {}", WEXITSTATUS(status));
  // No process sends itself SIGKILL, so a person sent it, or the kernel because memory ran out.
  const bool killed = WTERMSIG(status) == SIGKILL;
  return (killed ? "was killed with " : "crashed with ") + signal_name(WTERMSIG(status));
}

}  // namespace fairdraw::harness::plugin
