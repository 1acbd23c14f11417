// Declares the keeper, the parent process of a process that holds a plugin. The keeper outlives the
// plugin's process, and ends all processes that the plugin started, also daemons. The keeper also
// ends when the judge closes the stream `leash` or is gone.
#pragma once

#include <initializer_list>

namespace fairdraw::harness::plugin {

/// Forks. Returns true in the child process, whose parent stays as its keeper; returns false if no
/// process can be created. In the keeper this function never returns. The keeper closes the files
/// `of_child`, and waits until the child is gone or the judge closes its end of the stream `leash`.
/// Then the keeper ends all descendants of the child, writes the child's status (an int, as wait()
/// gives it) to `leash`, and exits.
bool fork_under_a_keeper(int leash, std::initializer_list<int> of_child);

}  // namespace fairdraw::harness::plugin
