// Lists of token ids, one list per row: histories, stop ids, words, biases.
//
// C++17, no dependency.
#pragma once

#include <cstdint>

#include "fairdraw/types.h"

namespace fairdraw {

/// One list of ids per row, all in one buffer: list r is data[begins[r]] to data[begins[r] +
/// lengths[r]], exclusive. Lists may overlap, and two rows may share a list: row i of a drafted
/// chain reads i more tokens of the request's history than row 0 does. A row fails if its list does
/// not lie in [0, size).
struct TokenLists {
  const std::int32_t* data = nullptr;  ///< [size]; ids of all lists
  std::int64_t size = 0;               ///< number of elements of `data`
  View<const std::int64_t> begins;     ///< [rows], in elements
  View<const std::int32_t> lengths;    ///< [rows]

  /// Returns true if lists are given.
  constexpr bool given() const { return lengths.given(); }
};

}  // namespace fairdraw
