#include "harness/plugin/shared_arrays.h"

#include <atomic>

namespace fairdraw::harness::plugin {
namespace {

// These addresses are far from programs, heaps and libraries, in the first half of a 47-bit address
// space, and outside the ranges of the address sanitizer.
constexpr std::uint64_t kFirstAddress = 0x2000'0000'0000;
constexpr std::uint64_t kLastAddress = 0x5000'0000'0000;
constexpr std::uint64_t kApart = std::uint64_t{512} << 30;  // more than all slots of one judge
constexpr int kTries = 64;

std::uint64_t next_address() {
  static std::atomic<std::uint64_t> next = 0;
  return kFirstAddress + next++ % ((kLastAddress - kFirstAddress) / kApart) * kApart;
}

}  // namespace

SharedArrays::SharedArrays() : ArraySlots(kLayout, next_address, kTries) {}

bool SharedArrays::map_in_child(int file, std::uint64_t address) {
  return map(kLayout, file, address) != nullptr;
}

}  // namespace fairdraw::harness::plugin
