// Kept sets of a call on the CPU: how they are packed.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "fairdraw/kept_sets.h"

namespace fairdraw::cpu {

/// Survivors of rows, ascending.
using Survivors = std::vector<std::vector<std::int32_t>>;

/// Packs `count` sets; set_of(i) is null where there is none.
void pack_sets(std::int64_t count,
               const std::function<const std::vector<std::int32_t>*(std::int64_t)>& set_of,
               const KeptSets& kept);

}  // namespace fairdraw::cpu
