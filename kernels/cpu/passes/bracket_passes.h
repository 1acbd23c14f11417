// Passes over the tiles of a row that look for the end of a nucleus: what tile_passes.h measures,
// of all values, of those above a bracket of values, and the values in it.
//
// Each instruction set has the same table of passes and gives the same bits. Weights are those of
// common/tile_weights.h. The floating-point environment is the caller's to set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/passes/tile_passes.h"
#include "fairdraw/types.h"

namespace fairdraw::cpu {

/// Where a nucleus is looked for.
struct BracketBounds {
  float from = 0;  ///< values below do not count; at least the smallest allowed value
  float low = 0;   ///< the bracket is [low, high]; low >= from
  float high = 0;  ///< high >= from; lists nothing where low > high
};

/// What `measure` says of each tile of a row, an array each, and of all.
struct MeasuredTiles {
  std::int32_t* keys;        ///< order_key of the largest allowed value; kEmptyTileKey without one
  std::uint64_t* sums;       ///< weights v of the values >= from
  std::uint64_t* above;      ///< weights v of the values > high
  std::uint32_t* run_begin;  ///< where the tile's values begin in `list`
  float* list;  ///< the values in [low, high], in order; room for all, and kSlack of passes.h
};

struct Measured {
  std::size_t listed = 0;  ///< how many values
  bool has_nan = false;    ///< of logits: then nothing else means anything
};

struct BracketPasses {
  /// One pass over a row of n values: logits, which may be NaN or +inf (the key of its tile is
  /// that of +inf then, and sums mean nothing), or probabilities without NaN, +inf and negative
  /// ones.
  Measured (*measure)(const float* x, std::size_t n, const TileRule& rule,
                      const BracketBounds& bounds, const MeasuredTiles& out);

  /// (float)((double)(v 2^shift) / total) of the values >= low of n <= kTileSize values of one
  /// tile, 0 for the others. Conversions round to the nearest, ties to even; the one to double is
  /// exact, because a weight has 24 significant bits.
  void (*probabilities)(const float* x, std::size_t n, const TileRule& rule, float maximum,
                        float low, int shift, double total, float* out);
};

/// The passes of a target that is available (best resolves to the best one).
const BracketPasses& bracket_passes_for(CpuTarget target);

/// The passes of a target that bracket_passes_simd.cpp was compiled for; null for the others.
const BracketPasses* simd_bracket_passes(CpuTarget target);

/// Portable C++, no intrinsics: the definition, value by value.
extern const BracketPasses kScalarBracketPasses;

}  // namespace fairdraw::cpu
