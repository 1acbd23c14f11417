#include "harness/plugin/shared_arrays.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <new>
#include <system_error>

namespace fairdraw::harness::plugin {
namespace {

// No page of any machine that this runs on is larger.
constexpr std::size_t kPage = std::size_t{1} << 16;
constexpr std::size_t kWide = std::size_t{64} << 30;
constexpr std::size_t kNarrow = std::size_t{4} << 30;
// Pages of arrays above this go back to the system with the array.
constexpr std::size_t kKept = std::size_t{64} << 20;

// Far from where programs, heaps and libraries go, in the first half of a 47-bit address space, and
// outside of what the address sanitizer takes for itself.
constexpr std::uint64_t kFirstAddress = 0x2000'0000'0000;
constexpr std::uint64_t kLastAddress = 0x5000'0000'0000;
constexpr int kTries = 64;

}  // namespace

std::size_t SharedArrays::slot_begin(std::size_t slot) {
  return slot <= kWideSlots ? slot * kWide : kWideSlots * kWide + (slot - kWideSlots) * kNarrow;
}

bool SharedArrays::protect_guards(std::byte* base) {
  for (std::size_t slot = 1; slot <= kSlots; ++slot) {
    if (mprotect(base + slot_begin(slot) - kPage, kPage, PROT_NONE) != 0) return false;
  }
  return true;
}

std::byte* SharedArrays::map(int file, std::uint64_t address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address that both processes agreed upon
  void* const wanted = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
  void* const mapped = mmap(wanted, slot_begin(kSlots), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, file, 0);
  if (mapped == MAP_FAILED) return nullptr;
  if (mapped == wanted && protect_guards(static_cast<std::byte*>(mapped))) {
    return static_cast<std::byte*>(mapped);
  }
  munmap(mapped, slot_begin(kSlots));
  return nullptr;
}

SharedArrays::SharedArrays() {
  file_ = memfd_create("fairdraw-arrays", MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(slot_begin(kSlots))) != 0) {
    const int error = errno;
    if (file_ >= 0) close(file_);
    throw std::system_error(error, std::generic_category(), "shared memory for a plugin's arrays");
  }
  static std::atomic<std::uint64_t> next = 0;
  const std::uint64_t places = (kLastAddress - kFirstAddress) / slot_begin(kSlots);
  for (int i = 0; i < kTries && base_ == nullptr; ++i) {
    base_ = map(file_, kFirstAddress + next++ % places * slot_begin(kSlots));
  }
  if (base_ == nullptr) {
    close(file_);
    throw std::system_error(ENOMEM, std::generic_category(), "address space for a plugin's arrays");
  }
}

SharedArrays::~SharedArrays() {
  munmap(base_, slot_begin(kSlots));
  close(file_);
}

bool SharedArrays::map_in_child(int file, std::uint64_t address) {
  return map(file, address) != nullptr;
}

const void* SharedArrays::array_near(std::uint64_t address) const {
  const auto base = reinterpret_cast<std::uintptr_t>(base_);
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    const bool inside = address >= base + slot_begin(slot) && address < base + slot_begin(slot + 1);
    if (inside) return arrays_[slot];
  }
  return nullptr;
}

void* SharedArrays::do_allocate(std::size_t bytes, std::size_t alignment) {
  for (std::size_t slot = kSlots; slot-- > 0;) {  // the narrow ones first
    const std::size_t end = slot_begin(slot + 1) - kPage;
    const std::size_t room = end - slot_begin(slot);
    if (arrays_[slot] != nullptr || bytes + alignment > room) continue;
    arrays_[slot] = base_ + (end - bytes) / alignment * alignment;
    return arrays_[slot];
  }
  throw std::bad_alloc();
}

void SharedArrays::do_deallocate(void* array, std::size_t bytes, std::size_t /*alignment*/) {
  for (std::byte*& taken : arrays_) {
    if (taken == array) taken = nullptr;
  }
  if (bytes < kKept) return;
  auto* const first = static_cast<std::byte*>(array);
  const std::size_t skip = (kPage - static_cast<std::size_t>(first - base_) % kPage) % kPage;
  // What is left is zeros when it is touched again. Where the system cannot, memory stays taken.
  if (bytes > skip) madvise(first + skip, (bytes - skip) / kPage * kPage, MADV_REMOVE);
}

}  // namespace fairdraw::harness::plugin
