// Implements the passes of bracket_passes.h in portable C++, by the definition of
// common/tile_weights.h.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/passes/bracket_passes.h"

namespace fairdraw::cpu {
namespace {

Measured measure(const float* x, std::size_t n, const WeightRule& rule, const BracketBounds& bounds,
                 const MeasuredTiles& out) {
  const float smallest = rule.from_probs ? std::numeric_limits<float>::denorm_min()
                                         : -std::numeric_limits<float>::max();
  if (std::any_of(x, x + n, [](float value) { return std::isnan(value); })) return {0, true};
  std::size_t listed = 0;
  for (std::size_t tile = 0; tile * kTileSize < n; ++tile) {
    const std::size_t begin = tile * kTileSize;
    const std::size_t end = std::min(n, begin + kTileSize);
    const float maximum = *std::max_element(x + begin, x + end);
    const bool empty = maximum < smallest;
    out.keys[tile] = empty ? kEmptyTileKey : order_key(maximum);
    out.sums[tile] = out.above[tile] = 0;
    out.run_begin[tile] = static_cast<std::uint32_t>(listed);
    const bool infinite = maximum > std::numeric_limits<float>::max();
    const double top = empty || infinite ? 0 : octaves_by(rule, maximum).whole;
    for (std::size_t i = begin; !empty && !infinite && i < end; ++i) {
      const float value = x[i];
      if (!(value >= bounds.from)) continue;
      const std::uint64_t weight = tile_weight(octaves_by(rule, value), top);
      out.sums[tile] += weight;
      if (value > bounds.high) {
        out.above[tile] += weight;
      } else if (value >= bounds.low) {
        out.list[listed++] = value;
      }
    }
  }
  return {listed, false};
}

void probabilities(const float* x, std::size_t n, const WeightRule& rule, float maximum, float low,
                   double total, float* out) {
  const double top = octaves_by(rule, maximum).whole;
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = x[i] >= low ? written_probability(octaves_by(rule, x[i]), top, total) : 0.0F;
  }
}

}  // namespace

const BracketPasses kScalarBracketPasses{measure, probabilities};

}  // namespace fairdraw::cpu
