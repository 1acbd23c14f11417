// The passes over tiles of a row: the index of tiles, and what is asked of single tiles afterwards.
//
// Weights are those of common/tile_weights.h. Each instruction set has the same table of passes and
// gives the same bits. `index` is the one pass that reads a whole row; whoever has the index knows
// which tiles matter, and reads those again with `read`, a tile at a time (it is in a near cache),
// to compare, sum, weigh or collect (collect of passes.h) its values.
//
// The floating-point environment is the caller's to set (float_environment.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/float_order.h"
#include "common/tile_weights.h"
#include "fairdraw/tile_index.h"
#include "fairdraw/types.h"

namespace fairdraw::cpu {

/// `weigh` may write this many zeros after the weights that it was asked for.
inline constexpr std::size_t kTileSlack = 16;

/// A row as the caller holds it. No alignment is asked of `data`.
struct TileRow {
  const void* data = nullptr;
  DType dtype = DType::float32;
  std::int64_t vocab = 0;
  const std::uint32_t* allowed = nullptr;  ///< bit 1: allowed (types.h, BitRows); null: all are
};

/// How a value becomes a weight: octaves_of(x, scale), or octaves_of_probability(x).
struct TileRule {
  bool from_probs = false;
  float scale = 1;  ///< logit_scale(T); of logits only
};

/// n and m of a value that can be drawn.
inline Octaves octaves_by(const TileRule& rule, float x) {
  return rule.from_probs ? octaves_of_probability(x) : octaves_of(x, rule.scale);
}

/// What a pass over a row has met. All but `allowed` count banned ids too.
struct RowFindings {
  bool nan = false;
  bool infinite = false;  ///< +inf
  bool negative = false;  ///< of probabilities only
  bool allowed = false;   ///< an allowed token
};

inline RowStatus status_of(const RowFindings& found) {
  if (found.nan) return RowStatus::nan_input;
  if (found.infinite) return RowStatus::infinite_input;
  if (found.negative) return RowStatus::negative_probability;
  return found.allowed ? RowStatus::ok : RowStatus::no_allowed_token;
}

struct TilePasses {
  /// The index of a row: for each of tiles_of(vocab) tiles order_key of its largest allowed value
  /// and the sum S of its weights; kEmptyTileKey and 0 for a tile without an allowed token.
  ///
  /// Returns what is wrong with the row, the first of: NaN, +inf, a negative probability (at
  /// banned ids too), no allowed token. Keys and sums mean nothing after the first three.
  RowStatus (*index)(const TileRow& row, const TileRule& rule, std::int32_t* keys,
                     std::uint64_t* sums);

  /// The values of a tile as float32: kTileSize of them, banned tokens and places beyond the row
  /// as -inf (probabilities: 0). Points into the row where that has them as they are, else to
  /// `buffer`, of kTileSize floats. What the row holds is not checked: `index` has done it.
  const float* (*read)(const TileRow& row, const TileRule& rule, std::int64_t tile, float* buffer);

  /// Sum of the weights v of the values >= low, of n <= kTileSize values of one tile. `maximum`
  /// is the tile's largest allowed value, from_order_key of its key: finite, and above 0 of
  /// probabilities; no value is larger.
  std::uint64_t (*sum)(const float* x, std::size_t n, const TileRule& rule, float maximum,
                       float low);

  /// The weights v themselves, 0 below `low`; up to kTileSlack zeros follow the n weights.
  void (*weigh)(const float* x, std::size_t n, const TileRule& rule, float maximum, float low,
                std::uint64_t* out);
};

/// The passes of a target that is available (best resolves to the best one).
const TilePasses& tile_passes_for(CpuTarget target);

/// The passes of a target that tile_passes_simd.cpp was compiled for; null for the others.
const TilePasses* simd_tile_passes(CpuTarget target);

/// Portable C++, no intrinsics: the definition, value by value.
extern const TilePasses kScalarTilePasses;

}  // namespace fairdraw::cpu
