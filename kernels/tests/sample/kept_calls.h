// The kept sets that a call on any backend wrote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fairdraw/kept_sets.h"
#include "tests/sample/sample_calls.h"

namespace fairdraw::suites {

/// Arrays for kept sets, which are filled beforehand with numbers that no call writes.
struct KeptArrays {
  std::vector<std::int32_t> ids;
  std::vector<std::int64_t> offsets;
  std::vector<std::uint8_t> overflow;

  KeptArrays(std::int64_t sets, std::int64_t room)
      : ids(static_cast<std::size_t>(room), -77),
        offsets(static_cast<std::size_t>(sets + 1), -77),
        overflow(static_cast<std::size_t>(sets), 77) {}

  bool operator==(const KeptArrays&) const = default;

  /// Returns the kept sets with their arrays in host or device memory.
  template <class Arrays>
  KeptSets in(Arrays& arrays) {
    const auto view = [&arrays](auto& values) {
      return View(arrays.out(values), static_cast<std::int64_t>(values.size()));
    };
    return {view(ids), view(offsets), view(overflow)};
  }

  std::vector<std::int32_t> set(std::size_t number) const {
    return {ids.begin() + offsets[number], ids.begin() + offsets[number + 1]};
  }
};

}  // namespace fairdraw::suites
