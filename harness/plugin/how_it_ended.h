// How a process ended, in words, and when.
#pragma once

#include <sys/types.h>

#include <string>

namespace fairdraw::harness::plugin {

/// "SIGSEGV"
std::string signal_name(int signal);

/// "ended its process with exit code 7", "crashed with SIGSEGV": from a status of wait().
std::string how_it_ended(int status);

/// A file that poll() finds readable when the process has ended; -1 where the system has none.
int file_of_process(pid_t process);

}  // namespace fairdraw::harness::plugin
