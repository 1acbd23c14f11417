#include "harness/run/calls/array_slots.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

namespace fairdraw::harness {
namespace {

// Arrays longer than this return their pages to the system when they are freed.
constexpr std::size_t kKept = std::size_t{64} << 20;
// The pattern that fills the rest of the memory pages of an array.
constexpr std::byte kPattern{0xa5};

std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

std::size_t begin_of(const ArraySlots::Layout& layout, std::size_t slot) {
  return slot <= layout.wide_slots
             ? slot * layout.wide
             : layout.wide_slots * layout.wide + (slot - layout.wide_slots) * layout.narrow;
}

bool is_pattern(const std::byte* first, const std::byte* last) {
  return std::all_of(first, last, [](std::byte value) { return value == kPattern; });
}

// Opens memory that can never be executed, if the system can seal it; older systems lack the flag
// for this.
int open_memory() {
  constexpr unsigned kNoExecSeal = 8;  // value of MFD_NOEXEC_SEAL, which older headers lack
  const int sealed = memfd_create("arrays", MFD_CLOEXEC | kNoExecSeal);
  return sealed >= 0 ? sealed : memfd_create("arrays", MFD_CLOEXEC);
}

// The slots of the calling thread, mapped at any address.
class ThreadSlots final : public ArraySlots {
 public:
  // A call has fewer than 24 results; arrays that are too long for a slot are on the heap.
  static constexpr Layout kLayout = {.slots = 24,
                                     .wide_slots = 0,
                                     .wide = 0,
                                     .narrow = std::size_t{1} << 30,
                                     .closed = false,
                                     .min_alignment = 64};
  ThreadSlots() : ArraySlots(kLayout, nullptr, 1) {}
};

// The slots that no thread is using. These slots are never destroyed, because a sampler may keep
// the address of an array in a slot and read it after the thread has ended.
class SpareSlots {
 public:
  static SpareSlots& all() {
    static auto* const spare = new SpareSlots;  // NOLINT(cppcoreguidelines-owning-memory)
    return *spare;
  }

  /// Returns null if the system cannot give memory.
  std::unique_ptr<ThreadSlots> take() {
    const std::lock_guard lock(mutex_);
    if (!slots_.empty()) {
      std::unique_ptr<ThreadSlots> slots = std::move(slots_.back());
      slots_.pop_back();
      return slots;
    }
    try {
      return std::make_unique<ThreadSlots>();
    } catch (const std::system_error&) {
      return nullptr;
    }
  }

  void give_back(std::unique_ptr<ThreadSlots> slots) {
    const std::lock_guard lock(mutex_);
    if (slots) slots_.push_back(std::move(slots));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<ThreadSlots>> slots_;
};

// The slots that a thread uses until it ends.
struct LentSlots {
  LentSlots() : slots(SpareSlots::all().take()) {}
  ~LentSlots() { SpareSlots::all().give_back(std::move(slots)); }
  LentSlots(const LentSlots&) = delete;
  LentSlots& operator=(const LentSlots&) = delete;

  std::unique_ptr<ThreadSlots> slots;
};

}  // namespace

std::byte* ArraySlots::map(const Layout& layout, int file, std::uint64_t address) {
  const std::size_t size = begin_of(layout, layout.slots);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address that both processes agreed upon
  void* const wanted = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
  const int place = wanted == nullptr ? 0 : MAP_FIXED_NOREPLACE;
  void* const mapped =
      mmap(wanted, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | place, file, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const base = static_cast<std::byte*>(mapped);
  bool right = wanted == nullptr || mapped == wanted;
  // Large pages are disabled, because a large page would include memory next to an array.
  madvise(mapped, size, MADV_NOHUGEPAGE);
  for (std::size_t slot = 1; right && layout.closed && slot <= layout.slots; ++slot) {
    right = mprotect(base + begin_of(layout, slot) - kGuard, kGuard, PROT_NONE) == 0;
  }
  if (right) return base;
  munmap(mapped, size);
  return nullptr;
}

ArraySlots::ArraySlots(const Layout& layout, const std::function<std::uint64_t()>& next_address,
                       int tries)
    : layout_(layout), slots_(layout.slots) {
  file_ = open_memory();
  const auto size = static_cast<off_t>(begin_of(layout, layout.slots));
  if (file_ < 0 || ftruncate(file_, size) != 0) {
    const int error = errno;
    if (file_ >= 0) close(file_);
    throw std::system_error(error, std::generic_category(), "shared memory for a call's arrays");
  }
  // A system that does not track touched pages reports the whole file as data.
  knows_pages_ = lseek(file_, 0, SEEK_DATA) < 0;
  for (int i = 0; i < tries && base_ == nullptr; ++i) {
    base_ = map(layout, file_, next_address ? next_address() : 0);
  }
  if (base_ == nullptr) {
    close(file_);
    throw std::system_error(ENOMEM, std::generic_category(), "address space for a call's arrays");
  }
}

ArraySlots::~ArraySlots() {
  munmap(base_, begin_of(layout_, layout_.slots));
  close(file_);
}

const ArraySlots::Slot* ArraySlots::slot_of(const void* place) const {
  const auto base = reinterpret_cast<std::uintptr_t>(base_);
  const auto address = reinterpret_cast<std::uintptr_t>(place);
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    const bool inside =
        address >= base + begin_of(layout_, slot) && address < base + begin_of(layout_, slot + 1);
    if (inside) return &slots_[slot];
  }
  return nullptr;
}

const void* ArraySlots::array_near(std::uint64_t address) const {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): where a process crashed
  const Slot* const slot = slot_of(reinterpret_cast<const void*>(address));
  return slot == nullptr ? nullptr : slot->array;
}

std::byte* ArraySlots::first_page(const Slot& slot) const {
  const auto at = static_cast<std::size_t>(slot.array - base_);
  return base_ + at / page_size() * page_size();
}

std::byte* ArraySlots::end_page(const Slot& slot) const {
  const auto at = static_cast<std::size_t>(slot.array + slot.bytes - base_);
  return base_ + (at + page_size() - 1) / page_size() * page_size();
}

bool ArraySlots::holds_data(const std::byte* first, const std::byte* last) const {
  if (!knows_pages_) return false;
  const off_t found = lseek(file_, first - base_, SEEK_DATA);
  return found >= 0 && found < last - base_;
}

void ArraySlots::empty(std::byte* first, std::byte* last) {
  if (knows_pages_ && !holds_data(first, last)) return;
  // If the system cannot free the pages, they count as touched in the next call too.
  madvise(first, static_cast<std::size_t>(last - first), MADV_REMOVE);
}

ArraySlots::Touched ArraySlots::around(const void* place) const {
  const Slot* const slot = slot_of(place);
  if (slot == nullptr || slot->array == nullptr) return Touched::nothing;
  const std::byte* const first = first_page(*slot);
  const std::byte* const end = end_page(*slot);
  if (!is_pattern(first, slot->array) || holds_data(first - kGuard, first)) {
    return Touched::in_front;
  }
  const bool behind = !is_pattern(slot->array + slot->bytes, end) ||
                      (!layout_.closed && holds_data(end, end + kGuard));
  return behind ? Touched::behind : Touched::nothing;
}

// The room is the size of the slot without the guard after the array, the guard in front of the
// array, whose pages stay untouched, and space for alignment.
std::size_t ArraySlots::room(std::size_t slot) const {
  return begin_of(layout_, slot + 1) - begin_of(layout_, slot) - 3 * kGuard;
}

bool ArraySlots::has_room(std::size_t bytes) const {
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].array == nullptr && bytes <= room(slot)) return true;
  }
  return false;
}

void* ArraySlots::do_allocate(std::size_t bytes, std::size_t alignment) {
  alignment = std::max(alignment, layout_.min_alignment);
  // The loop tries narrow slots before wide slots.
  for (std::size_t at = slots_.size(); at-- > 0;) {
    Slot& slot = slots_[at];
    if (slot.array != nullptr || bytes > room(at)) continue;
    const std::size_t end = begin_of(layout_, at + 1) - kGuard;
    slot.array = base_ + (end - bytes) / alignment * alignment;
    slot.bytes = bytes;
    std::byte* const first = first_page(slot);
    std::byte* const last = end_page(slot);
    empty(first - kGuard, first);  // clears pages of longer arrays that used this slot before
    if (!layout_.closed) empty(last, last + kGuard);
    std::fill(first, slot.array, kPattern);
    std::fill(slot.array + bytes, last, kPattern);
    return slot.array;
  }
  throw std::bad_alloc();
}

void ArraySlots::do_deallocate(void* array, std::size_t bytes, std::size_t /*alignment*/) {
  for (Slot& slot : slots_) {
    if (slot.array != array) continue;
    if (bytes >= kKept) empty(first_page(slot), end_page(slot));
    slot = {};
  }
}

ArraySlots* result_slots() {
  thread_local const LentSlots lent;
  return lent.slots.get();
}

}  // namespace fairdraw::harness
