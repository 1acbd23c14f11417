// The weight of a row by its tiles, and of a row of logits its logarithm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/tile_weights.h"
#include "cpu/passes/tile_passes.h"

namespace fairdraw::cpu {

/// Sum of tiles' sums in the unit of a row whose octave is `row_octave`, 2^(row_octave - 103).
uint128_t weight_of_tiles(const std::int32_t* keys, const std::uint64_t* sums, std::size_t tiles,
                          const TileRule& rule, double row_octave);

/// Rows that no filter has seen.
class RowMass {
 public:
  /// log_mass (common/log_mass.h) of all of a row of n logits at temperature 1. No NaN, no +inf,
  /// and one is not -inf.
  double of_logits(const TilePasses& passes, const float* x, std::size_t n, float max);

 private:
  std::vector<std::int32_t> keys_;
  std::vector<std::uint64_t> sums_;
};

}  // namespace fairdraw::cpu
