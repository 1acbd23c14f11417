// Checks of the arguments of fairdraw/kept_sets.h, which are the same for every backend
// (arguments.h).
#pragma once

#include <cstdint>

#include "common/arguments.h"
#include "fairdraw/kept_sets.h"

namespace fairdraw {

/// Checks the arrays of a call that has `sets` kept sets.
Error check_kept(const KeptSets& kept, std::int64_t sets, const char* meaning = "outputs");
/// Checks rows of bits, and the kept sets that will be made from these rows.
Error check_kept_mask(const KeptMask& rows, const KeptSets& kept);
inline std::int64_t outputs_of(const KeptMask& rows) {
  return rows.indices.given() ? rows.indices.size : rows.mask.rows;
}

}  // namespace fairdraw
