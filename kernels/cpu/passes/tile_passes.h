// Passes over tiles of a row: the index of tiles, and queries of single tiles.
//
// Weights are defined in common/tile_weights.h. Each instruction set has the same table of passes,
// with bit-identical results. Only the pass `index` reads a whole row. The index tells the caller
// which tiles matter; `read` reads these tiles again, one at a time (from cache), to compare, sum,
// weigh or collect (collect of passes.h) their values.
//
// The caller sets the floating-point environment (float_environment.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/float_order.h"
#include "common/tile_weights.h"
#include "fairdraw/tile_index.h"
#include "fairdraw/types.h"

namespace fairdraw::cpu {

/// Number of zeros that `weigh` may write after the requested weights.
inline constexpr std::size_t kTileSlack = 16;

/// A row in the caller's memory. `data` needs no alignment.
struct TileRow {
  const void* data = nullptr;
  DType dtype = DType::float32;
  std::int64_t vocab = 0;
  const std::uint32_t* allowed = nullptr;  ///< bit 1: token is allowed (types.h, BitRows); null:
                                           ///< all tokens are
};

/// The rule from a value to its weight: octaves_of(x, scale), or octaves_of_probability(x).
struct TileRule {
  bool from_probs = false;
  float scale = 1;  ///< logit_scale(T); for logits only
};

/// Returns n and m of a value that can be drawn.
inline Octaves octaves_by(const TileRule& rule, float x) {
  return rule.from_probs ? octaves_of_probability(x) : octaves_of(x, rule.scale);
}

/// Results of a pass over a row. All members except `allowed` include banned ids.
struct RowFindings {
  bool nan = false;
  bool infinite = false;  ///< +inf
  bool negative = false;  ///< for probabilities only
  bool allowed = false;   ///< an allowed token
};

inline RowStatus status_of(const RowFindings& found) {
  if (found.nan) return RowStatus::nan_input;
  if (found.infinite) return RowStatus::infinite_input;
  if (found.negative) return RowStatus::negative_probability;
  return found.allowed ? RowStatus::ok : RowStatus::no_allowed_token;
}

struct TilePasses {
  /// Writes the index of a row: for each of tiles_of(vocab) tiles, order_key of its largest allowed
  /// value and the sum S of its weights; kEmptyTileKey and 0 for a tile without an allowed token.
  ///
  /// Returns the first fault of the row: NaN, +inf, a negative probability (these three at banned
  /// ids too), no allowed token. After one of the first three faults, keys and sums are
  /// meaningless.
  RowStatus (*index)(const TileRow& row, const TileRule& rule, std::int32_t* keys,
                     std::uint64_t* sums);

  /// Returns the kTileSize values of a tile as float32, with -inf (probabilities: 0) for banned
  /// tokens and positions beyond the row. Returns a pointer into the row if no value differs there,
  /// otherwise `buffer`, of kTileSize floats. Does not check the values, because `index` has
  /// checked them.
  const float* (*read)(const TileRow& row, const TileRule& rule, std::int64_t tile, float* buffer);

  /// Returns the sum of the weights v of the values >= low, for n <= kTileSize values of one tile.
  /// `maximum` is the tile's largest allowed value, from_order_key of its key: finite, and above 0
  /// for probabilities. Precondition: no value is larger than `maximum`.
  std::uint64_t (*sum)(const float* x, std::size_t n, const TileRule& rule, float maximum,
                       float low);

  /// Writes the weights v of n values, 0 for values below `low`, and up to kTileSlack zeros after
  /// the n weights.
  void (*weigh)(const float* x, std::size_t n, const TileRule& rule, float maximum, float low,
                std::uint64_t* out);
};

/// Returns the passes of an available target (best resolves to the best one).
const TilePasses& tile_passes_for(CpuTarget target);

/// Returns the passes of a target that tile_passes_simd.cpp was compiled for, or null.
const TilePasses* simd_tile_passes(CpuTarget target);

/// Passes that evaluate the definition value by value, in portable C++ without intrinsics.
extern const TilePasses kScalarTilePasses;

}  // namespace fairdraw::cpu
