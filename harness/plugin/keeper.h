// A process above the one that holds a plugin, which outlives it and leaves nothing behind: what
// the plugin started ends with it, daemons too, and it ends when the judge lets go or is gone.
#pragma once

#include <initializer_list>

namespace fairdraw::harness::plugin {

/// Forks. Returns true in the child, whose parent stays as its keeper, and false where no process
/// can be had. The keeper never returns: it closes the files `of_child`, waits until the child is
/// gone or the judge closes its end of the stream `leash`, ends everything that descends from the
/// child, writes the child's status (an int, as wait() gives it) to `leash`, and ends.
bool fork_under_a_keeper(int leash, std::initializer_list<int> of_child);

}  // namespace fairdraw::harness::plugin
