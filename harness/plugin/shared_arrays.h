// Memory that two processes see at the same addresses: the arrays of a call are made in it, so that
// nothing is copied when the call crosses over, and pointers mean the same on both sides.
#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/run/calls/array_slots.h"

namespace fairdraw::harness::plugin {

/// Closed slots: what is read or written past an array, by more than its alignment, hits an
/// inaccessible page. Address space is plentiful, and memory is taken for what is touched alone, so
/// that slots never move.
class SharedArrays final : public ArraySlots {
 public:
  /// Throws std::system_error where the system gives none.
  SharedArrays();

  /// The child's side: maps `file` at the judge's address. False where something else is there.
  static bool map_in_child(int file, std::uint64_t address);

  static constexpr std::size_t kSlots = 64;

 private:
  static constexpr Layout kLayout = {.slots = kSlots,
                                     .wide_slots = 2,
                                     .wide = std::size_t{64} << 30,
                                     .narrow = std::size_t{4} << 30,
                                     .closed = true,
                                     .least_alignment = 1};
};

}  // namespace fairdraw::harness::plugin
