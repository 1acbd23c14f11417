// Memory that two processes see at the same addresses: the arrays of a call are made in it, so that
// nothing is copied when the call crosses over, and pointers mean the same on both sides.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory_resource>

#include "harness/contract/call_arrays.h"

namespace fairdraw::harness::plugin {

/// Slots, each with an inaccessible page after it. An array is laid against the end of its
/// slot: what is read or written past it, by more than its alignment, hits that page. Address
/// space is plentiful, and memory is taken for what is touched alone, so that slots never move.
class SharedArrays final : public std::pmr::memory_resource {
 public:
  /// Throws std::system_error where the system gives none.
  SharedArrays();
  ~SharedArrays() override;
  SharedArrays(const SharedArrays&) = delete;
  SharedArrays& operator=(const SharedArrays&) = delete;

  int file() const { return file_; }
  std::byte* address() const { return base_; }

  /// The last place of an array that lies at or in front of `address` in the same slot; null where
  /// there is none.
  const void* array_near(std::uint64_t address) const;

  /// The child's side: maps `file` at the judge's address. False where something else is there.
  static bool map_in_child(int file, std::uint64_t address);

 private:
  static constexpr std::size_t kWideSlots = 2, kSlots = 64;
  static_assert(array_count<fairdraw_batch>() <= kSlots &&
                array_count<fairdraw_chain>() <= kSlots &&
                array_count<fairdraw_verification>() <= kSlots);

  void* do_allocate(std::size_t bytes, std::size_t alignment) override;  // std::bad_alloc: no slot
  void do_deallocate(void* array, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  static std::size_t slot_begin(std::size_t slot);
  static bool protect_guards(std::byte* base);
  static std::byte* map(int file, std::uint64_t address);

  int file_ = -1;
  std::byte* base_ = nullptr;
  std::array<std::byte*, kSlots> arrays_{};  // that lie in the slots; null: the slot is free
};

}  // namespace fairdraw::harness::plugin
