// Passes over the tiles of a row that search for the end of a nucleus. The passes measure tiles as
// tile_passes.h does, but also sum the values above a bracket and list the values in the bracket.
//
// Each instruction set has the same table of passes, whose results are equal bit for bit. The
// weights are defined in common/tile_weights.h. The caller must set the floating-point environment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/passes/tile_passes.h"
#include "fairdraw/types.h"

namespace fairdraw::cpu {

/// Range of values in which the end of a nucleus is searched for.
struct BracketBounds {
  float from = 0;  ///< values below `from` are ignored; it is at least the smallest allowed value
  float low = 0;   ///< the bracket is [low, high], with low >= from
  float high = 0;  ///< at least `from`; the list is empty if low > high
};

/// Results of `measure`: several arrays with one value per tile, and the list.
struct MeasuredTiles {
  std::int32_t* keys;    ///< order_key of the largest allowed value, or kEmptyTileKey if the tile
                         ///< has no allowed value
  std::uint64_t* sums;   ///< sums of the weights v of the values >= from
  std::uint64_t* above;  ///< sums of the weights v of the values above `high`
  std::uint32_t* run_begin;  ///< position in `list` of the first value of the tile
  float* list;  ///< values in [low, high], in order; the array has room for n + kSlack values
                ///< (passes.h)
};

struct Measured {
  std::size_t listed = 0;  ///< number of listed values
  bool has_nan = false;    ///< for logits only; if true, all other results have no meaning
};

struct BracketPasses {
  /// Measures a row of n values in a single pass. Logits may be NaN or +inf; if a tile has +inf,
  /// its key is that of +inf, and its sums have no meaning. Probabilities must not be NaN, +inf or
  /// negative.
  Measured (*measure)(const float* x, std::size_t n, const WeightRule& rule,
                      const BracketBounds& bounds, const MeasuredTiles& out);

  /// Writes the probabilities of n values of a row, with 0 for values below `low`. `maximum` is the
  /// row's maximum, and `total` is the double nearest to the weight of the survivors.
  void (*probabilities)(const float* x, std::size_t n, const WeightRule& rule, float maximum,
                        float low, double total, float* out);
};

/// Returns the passes of a target that this machine has; CpuTarget::best stands for the best of
/// them.
const BracketPasses& bracket_passes_for(CpuTarget target);

/// Returns the passes of a target for which bracket_passes_simd.cpp was compiled, or null.
const BracketPasses* simd_bracket_passes(CpuTarget target);

/// Passes that evaluate the definition value by value, in portable C++ without intrinsics.
extern const BracketPasses kScalarBracketPasses;

}  // namespace fairdraw::cpu
