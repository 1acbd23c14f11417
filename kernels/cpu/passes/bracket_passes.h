// Passes over the tiles of a row that search for the end of a nucleus. They measure tiles as
// tile_passes.h does, also above a bracket of values, and list the values in the bracket.
//
// Each instruction set has the same table of passes, with bit-identical results. Weights are
// defined in common/tile_weights.h. The caller sets the floating-point environment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/passes/tile_passes.h"
#include "fairdraw/types.h"

namespace fairdraw::cpu {

/// The range of values in which a nucleus is searched for.
struct BracketBounds {
  float from = 0;  ///< values below `from` do not count; at least the smallest allowed value
  float low = 0;   ///< the bracket is [low, high]; low >= from
  float high = 0;  ///< high >= from; the list is empty if low > high
};

/// Results of `measure`: one array each with a value per tile, and the list.
struct MeasuredTiles {
  std::int32_t* keys;   ///< order_key of the largest allowed value; kEmptyTileKey for tiles without
                        ///< one
  std::uint64_t* sums;  ///< weights v of the values >= from
  std::uint64_t* above;      ///< weights v of the values > high
  std::uint32_t* run_begin;  ///< index in `list` of the tile's first value
  float* list;  ///< the values in [low, high], in order; capacity n + kSlack of passes.h
};

struct Measured {
  std::size_t listed = 0;  ///< number of listed values
  bool has_nan = false;    ///< for logits only; if true, all other results are meaningless
};

struct BracketPasses {
  /// Measures a row of n values in one pass. Logits may be NaN or +inf (then the key of the tile is
  /// that of +inf, and its sums are meaningless). Probabilities must not be NaN, +inf or negative.
  Measured (*measure)(const float* x, std::size_t n, const TileRule& rule,
                      const BracketBounds& bounds, const MeasuredTiles& out);

  /// Writes the probabilities of the values >= low among n values of a row, and 0 for the other
  /// values. `maximum` is the row's, and `total` the double nearest to the survivors' weight.
  void (*probabilities)(const float* x, std::size_t n, const TileRule& rule, float maximum,
                        float low, double total, float* out);
};

/// Returns the passes of an available target (best resolves to the best one).
const BracketPasses& bracket_passes_for(CpuTarget target);

/// Returns the passes of a target that bracket_passes_simd.cpp was compiled for, or null.
const BracketPasses* simd_bracket_passes(CpuTarget target);

/// Passes that evaluate the definition value by value, in portable C++ without intrinsics.
extern const BracketPasses kScalarBracketPasses;

}  // namespace fairdraw::cpu
