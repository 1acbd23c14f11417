// What keeps a plugin's process from looking at the judge, and from telling that it is judged by
// the names that it was started under.
#pragma once

#include <sys/types.h>

#include <string>

namespace fairdraw::harness::plugin {

/// In the judge, for as long as a plugin's process is there: processes of the same user cannot
/// read its memory or trace it, unless they have the capability for that.
class Secluded {
 public:
  Secluded();
  ~Secluded();
  Secluded(const Secluded&) = delete;
  Secluded& operator=(const Secluded&) = delete;
};

/// In the process that holds a plugin, before it is loaded: gives up, for good and for all that it
/// starts, the capability to trace other processes, which root has.
void give_up_tracing();

/// There, afterwards: whether the memory of `process` can be read nevertheless.
bool can_read_memory_of(pid_t process);

/// There: overwrites the command line that the process was started with, and its name.
void take_neutral_name();

/// For the record of a run: how plugins were kept out of the judge so far. `say` adds to it.
void say_how_secluded(const std::string& what);
std::string how_secluded();

}  // namespace fairdraw::harness::plugin
