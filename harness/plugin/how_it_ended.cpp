#include "harness/plugin/how_it_ended.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>

namespace fairdraw::harness::plugin {

std::string signal_name(int signal) {
  const char* const name = sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

std::string how_it_ended(int status) {
  if (WIFEXITED(status))
    return fmt::format("ended its process with exit code {}", WEXITSTATUS(status));
  // No process ends itself so: a person did it, or the kernel when memory ran out.
  const bool killed = WTERMSIG(status) == SIGKILL;
  return (killed ? "was killed with " : "crashed with ") + signal_name(WTERMSIG(status));
}

}  // namespace fairdraw::harness::plugin
