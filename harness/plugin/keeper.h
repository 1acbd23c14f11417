// A process above the one that holds a plugin, which outlives it and leaves nothing behind: what
// the plugin started ends with it, daemons too, and it ends when the judge lets go or is gone.
#pragma once

namespace fairdraw::harness::plugin {

/// Forks. Returns true in the child, whose parent stays as its keeper, and false where no process
/// can be had. The keeper never returns: it waits until the child is gone or the judge closes its
/// end of kLeashFile, ends everything that descends from the child, writes the child's status
/// (an int, as wait() gives it) to kLeashFile, and ends.
bool fork_under_a_keeper();

}  // namespace fairdraw::harness::plugin
