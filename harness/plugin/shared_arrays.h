// Memory that two processes map at the same addresses. The arrays of a call are created in this
// memory, so that nothing is copied between the processes and pointers mean the same in both.
#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/run/calls/array_slots.h"

namespace fairdraw::harness::plugin {

/// Slots for arrays that are bounded by inaccessible pages, so that an access past an array by more
/// than its alignment crashes. Slots never move, because there is plenty of address space and only
/// touched pages use memory.
class SharedArrays final : public ArraySlots {
 public:
  /// Maps the memory. Throws std::system_error if the system refuses the mapping.
  SharedArrays();

  /// Maps `file` at the judge's address; the child process calls this function. Returns false if
  /// other memory is mapped in this address range.
  static bool map_in_child(int file, std::uint64_t address);

  static constexpr std::size_t kSlots = 96;

 private:
  static constexpr Layout kLayout = {.slots = kSlots,
                                     .wide_slots = 2,
                                     .wide = std::size_t{64} << 30,
                                     .narrow = std::size_t{4} << 30,
                                     .closed = true,
                                     .min_alignment = 1};
};

}  // namespace fairdraw::harness::plugin
