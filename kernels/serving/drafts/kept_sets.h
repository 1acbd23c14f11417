// Packs the kept sets of a call on the CPU.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "fairdraw/kept_sets.h"

namespace fairdraw::cpu {

/// Survivors of each row, in ascending order of ids.
using Survivors = std::vector<std::vector<std::int32_t>>;

/// Packs `count` sets; set_of(i) must return set i, or null if there is no such set.
void pack_sets(std::int64_t count,
               const std::function<const std::vector<std::int32_t>*(std::int64_t)>& set_of,
               const KeptSets& kept);

}  // namespace fairdraw::cpu
