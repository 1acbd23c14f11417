// How a process ended, in words.
#pragma once

#include <string>

namespace fairdraw::harness::plugin {

/// "SIGSEGV"
std::string signal_name(int signal);

/// "ended its process with exit code 7", "crashed with SIGSEGV": from a status of wait().
std::string how_it_ended(int status);

}  // namespace fairdraw::harness::plugin
