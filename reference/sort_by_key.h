// A radix sort for both oracles, because rows are long and sorting took most of the oracles' time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace fairdraw::reference {

/// Sorts entries by their upper 32 bits, the keys; the lower bits of the entries given must grow
/// from entry to entry.
inline void sort_by_key(std::vector<std::uint64_t>& entries) {
  constexpr std::size_t kShort = 1024;  // below this size, counting digits takes longer
  if (entries.size() < kShort) {
    std::sort(entries.begin(), entries.end());
    return;
  }
  // Lowest digit first. Each pass over the entries keeps the order of equal digits, so that entries
  // of equal keys keep their order.
  constexpr unsigned kBits = 11, kFirst = 32, kEnd = 64;
  constexpr std::uint64_t kDigit = (std::uint64_t{1} << kBits) - 1;
  std::vector<std::uint64_t> sorted(entries.size());
  for (unsigned shift = kFirst; shift < kEnd; shift += kBits) {
    std::array<std::size_t, kDigit + 1> place{};
    for (const std::uint64_t entry : entries) ++place[(entry >> shift) & kDigit];
    std::size_t begin = 0;
    for (std::size_t& one : place) {
      const std::size_t count = one;
      one = begin;
      begin += count;
    }
    for (const std::uint64_t entry : entries) sorted[place[(entry >> shift) & kDigit]++] = entry;
    entries.swap(sorted);
  }
}

}  // namespace fairdraw::reference
