// Describes in words how a process ended, and detects its end.
#pragma once

#include <sys/types.h>

#include <string>

namespace fairdraw::harness::plugin {

/// Returns the name of a signal, such as "SIGSEGV".
std::string signal_name(int signal);

/// Returns a description of a status of wait(), such as "ended its process with exit code 7" or
/// "crashed with SIGSEGV".
std::string how_it_ended(int status);

/// Opens a file that poll() reports as readable once the process has ended; returns -1 if the
/// system has no such files.
int file_of_process(pid_t process);

}  // namespace fairdraw::harness::plugin
