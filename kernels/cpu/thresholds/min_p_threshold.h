// Finds the smallest float that min_p keeps in a row (fairdraw/sample.h).
#pragma once

#include "cpu/passes/tile_passes.h"

namespace fairdraw::cpu {

/// Returns the threshold for a min_p in (0, 1]; `max` is the largest allowed value of the row.
float min_p_threshold(float min_p, float max, const WeightRule& rule);

}  // namespace fairdraw::cpu
