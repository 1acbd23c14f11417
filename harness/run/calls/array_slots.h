// Places the arrays of a call far apart in memory, so that an access around an array is detected
// without reading that memory.
//
// The memory is a file that has only those pages that were touched, and the system says which pages
// these are (SEEK_DATA). Between two arrays there are gigabytes of addresses without memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory_resource>
#include <vector>

#include "fairdraw/types.h"

namespace fairdraw::harness {

/// Slots, each with room for one array. An array ends at the end of its slot, in front of a guard
/// of kGuard bytes.
class ArraySlots : public std::pmr::memory_resource {
 public:
  struct Layout {
    std::size_t slots, wide_slots;  ///< number of slots; the first `wide_slots` of them are wide
    std::size_t wide, narrow;       ///< bytes of a slot
    bool closed;                    ///< true if guards are inaccessible, so that an access crashes
    std::size_t min_alignment;      ///< minimum alignment of the arrays in bytes
  };
  /// The number of bytes that are watched on either side of an array: the longest possible row, so
  /// that an access that is off by at most one row is detected.
  static constexpr std::size_t kGuard = static_cast<std::size_t>(kMaxVocab) * sizeof(float);

  ~ArraySlots() override;
  ArraySlots(const ArraySlots&) = delete;
  ArraySlots& operator=(const ArraySlots&) = delete;

  int file() const { return file_; }
  std::byte* address() const { return base_; }

  /// Returns whether a free slot has room for an array of `bytes` bytes.
  bool has_room(std::size_t bytes) const;

  /// Returns the array in the slot that contains `address`, or null if no slot contains it.
  const void* array_near(std::uint64_t address) const;

  enum class Touched { nothing, in_front, behind };
  /// Returns whether memory next to the array that contains `place` was touched. Within kGuard
  /// bytes of the array's pages, around() detects every page that was written or read; within the
  /// array's own pages, every byte that was written. For an address outside of all slots, around()
  /// finds nothing.
  Touched around(const void* place) const;

 protected:
  /// Maps the slots. The function `next_address` is called up to `tries` times, until no other
  /// mapping is at the address that it returns; if it is null, any address may be used. Throws
  /// std::system_error if the system cannot give memory.
  ArraySlots(const Layout& layout, const std::function<std::uint64_t()>& next_address, int tries);

  /// Returns null if another mapping is at `address`.
  static std::byte* map(const Layout& layout, int file, std::uint64_t address);

 private:
  struct Slot {
    std::byte* array = nullptr;  // null if free
    std::size_t bytes = 0;
  };

  void* do_allocate(std::size_t bytes, std::size_t alignment) override;  // throws std::bad_alloc if
                                                                         // no slot has room
  void do_deallocate(void* array, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  std::size_t room(std::size_t slot) const;
  const Slot* slot_of(const void* place) const;
  std::byte* first_page(const Slot& slot) const;
  std::byte* end_page(const Slot& slot) const;
  bool holds_data(const std::byte* first, const std::byte* last) const;
  void empty(std::byte* first, std::byte* last);

  Layout layout_;
  int file_ = -1;
  bool knows_pages_ = true;  // true if the system says which pages were touched
  std::byte* base_ = nullptr;
  std::vector<Slot> slots_;
};

/// Returns the memory for results of samplers in this process, which is the slots of the calling
/// thread, with accessible guards. The slots are never unmapped, because a sampler may keep the
/// address of an array and read it later. Returns null if the system cannot give memory; then only
/// patterns guard the results.
ArraySlots* result_slots();

}  // namespace fairdraw::harness
