// Memory for the arrays of a call, far apart: what is touched around an array is seen, without
// looking at it.
//
// The memory is a file that holds nothing but the pages that were touched, and the system says
// which those are (SEEK_DATA). Between two arrays there are gigabytes of addresses and no page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory_resource>
#include <vector>

#include "fairdraw/types.h"

namespace fairdraw::harness {

/// Slots, each for one array. An array is laid against the end of its slot, in front of a guard of
/// kGuard bytes.
class ArraySlots : public std::pmr::memory_resource {
 public:
  struct Layout {
    std::size_t slots, wide_slots;  ///< of which the first are wide
    std::size_t wide, narrow;       ///< bytes of a slot
    bool closed;                    ///< a guard is inaccessible: who touches it crashes
    std::size_t least_alignment;    ///< of arrays
  };
  /// What is watched on either side of an array: the longest row that there is. Who is wrong by a
  /// row, or by less, is seen.
  static constexpr std::size_t kGuard = static_cast<std::size_t>(kMaxVocab) * sizeof(float);

  ~ArraySlots() override;
  ArraySlots(const ArraySlots&) = delete;
  ArraySlots& operator=(const ArraySlots&) = delete;

  int file() const { return file_; }
  std::byte* address() const { return base_; }

  /// Whether an array of so many bytes has a slot.
  bool has_room(std::size_t bytes) const;

  /// The last place of an array that lies at or in front of `address` in the same slot; null where
  /// there is none.
  const void* array_near(std::uint64_t address) const;

  enum class Touched { nothing, in_front, behind };
  /// Whether memory next to the array that holds `place` was written, or a page of it that is not
  /// the array's was read: within kGuard bytes of its pages, and to the byte within them. An
  /// address in no slot: nothing.
  Touched around(const void* place) const;

 protected:
  /// Maps the slots at one of the addresses: `next_address` is asked for the next one as long as
  /// something else is there, up to `tries` times; null: anywhere. Throws std::system_error where
  /// the system gives no memory.
  ArraySlots(const Layout& layout, const std::function<std::uint64_t()>& next_address, int tries);

  /// Null where something else is at `address`.
  static std::byte* map(const Layout& layout, int file, std::uint64_t address);

 private:
  struct Slot {
    std::byte* array = nullptr;  // null: free
    std::size_t bytes = 0;
  };

  void* do_allocate(std::size_t bytes, std::size_t alignment) override;  // std::bad_alloc: no slot
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
  bool knows_pages_ = true;  // the system says which pages were touched
  std::byte* base_ = nullptr;
  std::vector<Slot> slots_;
};

/// Memory for results of samplers in this process: open slots, those of the calling thread. They
/// are never unmapped: a sampler that keeps the place of an array may read it later. Null where the
/// system gives none: then results are guarded by patterns alone.
ArraySlots* result_slots();

}  // namespace fairdraw::harness
