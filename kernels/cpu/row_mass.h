// Computes the weight of a row from its tiles, and its logarithm for rows of logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/tile_weights.h"
#include "cpu/passes/tile_passes.h"

namespace fairdraw::cpu {

/// Returns the total of the tiles' sums in units of 2^(row_octave - 103), which is the unit of a
/// row with this octave.
uint128_t weight_of_tiles(const std::int32_t* keys, const std::uint64_t* sums, std::size_t tiles,
                          const WeightRule& rule, double row_octave);

/// Computation of log_mass for rows that no filter has processed.
class RowMass {
 public:
  /// Returns log_mass (common/log_mass.h) of a whole row of n logits at temperature 1.
  /// Precondition: no value is NaN or +inf, and at least one value is above -inf.
  double of_logits(const TilePasses& passes, const float* x, std::size_t n, float max);

 private:
  std::vector<std::int32_t> keys_;
  std::vector<std::uint64_t> sums_;
};

}  // namespace fairdraw::cpu
