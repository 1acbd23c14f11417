#include "cpu/thresholds/min_p_threshold.h"

#include <limits>

#include "common/float_order.h"
#include "common/min_p.h"

namespace fairdraw::cpu {

float min_p_threshold(float min_p, float max, const WeightRule& rule) {
  if (rule.from_probs) {
    // Both factors have 24 bits, so their product is exact as a double.
    const double exact = static_cast<double>(min_p) * static_cast<double>(max);
    const auto nearest = static_cast<float>(exact);
    return static_cast<double>(nearest) < exact ? next_above(nearest) : nearest;
  }
  // The distance y does not decrease as x grows, so the values that are kept are all values from
  // some float on.
  const float octaves = min_p_octaves(min_p);
  std::int64_t below = std::int64_t{order_key(-std::numeric_limits<float>::max())} - 1;
  std::int64_t kept = order_key(max);
  while (kept - below > 1) {
    const std::int64_t middle = (below + kept) >> 1;
    const float x = from_order_key(static_cast<std::int32_t>(middle));
    const float y = (x - max) * rule.scale;
    (y >= octaves ? kept : below) = middle;
  }
  return from_order_key(static_cast<std::int32_t>(kept));
}

}  // namespace fairdraw::cpu
