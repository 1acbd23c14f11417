// Describes in words how a process ended, and tells when it ends.
#pragma once

#include <sys/types.h>

#include <string>

namespace fairdraw::harness::plugin {

/// Returns the name of a signal, such as "SIGSEGV".
std::string signal_name(int signal);

/// Describes a status of wait(): "ended its process with exit code 7", "crashed with SIGSEGV".
std::string how_it_ended(int status);

/// Opens a file that poll() reports as readable once the process has ended; -1 if the system has
/// none.
int file_of_process(pid_t process);

}  // namespace fairdraw::harness::plugin
