// Lists of token ids, one a row: histories, stop ids, words, biases.
//
// C++17, no dependency.
#pragma once

#include <cstdint>

#include "fairdraw/types.h"

namespace fairdraw {

/// One list a row, all in one buffer: list r is data[begins[r]] to data[begins[r] + lengths[r]],
/// exclusive. Lists may overlap, and two rows may share one: row i of a drafted chain reads the
/// request's history i tokens further than row 0 does. A list that does not lie in [0, size)
/// fails its row.
struct TokenLists {
  const std::int32_t* data = nullptr;  ///< [size]; the ids of all lists
  std::int64_t size = 0;               ///< of `data`, in elements
  View<const std::int64_t> begins;     ///< [rows], in elements
  View<const std::int32_t> lengths;    ///< [rows]

  /// True where there are lists.
  constexpr bool given() const { return lengths.given(); }
};

}  // namespace fairdraw
