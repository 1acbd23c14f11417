#include "cpu/row_mass.h"

#include "common/log_mass.h"

namespace fairdraw::cpu {

uint128_t weight_of_tiles(const std::int32_t* keys, const std::uint64_t* sums, std::size_t tiles,
                          const WeightRule& rule, double row_octave) {
  uint128_t total = 0;
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    if (keys[tile] == kEmptyTileKey) continue;
    const double octave = octaves_by(rule, from_order_key(keys[tile])).whole;
    total += row_weight(sums[tile], row_shift(row_octave, octave));
  }
  return total;
}

double RowMass::of_logits(const TilePasses& passes, const float* x, std::size_t n, float max) {
  const auto tiles = static_cast<std::size_t>(tiles_of(static_cast<std::int64_t>(n)));
  if (keys_.size() < tiles) {
    keys_.resize(tiles);
    sums_.resize(tiles);
  }
  const WeightRule rule{false, logit_scale(1.0F)};
  const RowInMemory row{x, DType::float32, static_cast<std::int64_t>(n), nullptr};
  passes.index(row, rule, keys_.data(), sums_.data());
  const double octave = octaves_by(rule, max).whole;
  return log_mass_of(weight_of_tiles(keys_.data(), sums_.data(), tiles, rule, octave), max,
                     rule.scale);
}

}  // namespace fairdraw::cpu
