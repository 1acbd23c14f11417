// Passes over the tiles of a row: the index of tiles, and queries about single tiles.
//
// The weights are defined in common/tile_weights.h. Each instruction set has the same table of
// passes, whose results are equal bit for bit. Only the pass `index` reads a whole row. From the
// index, the caller learns which tiles matter. The pass `read` reads these tiles again, one at a
// time and usually from a cache, to compare, sum, weigh or collect their values (collect of
// passes.h).
//
// The caller must set the floating-point environment (float_environment.h).
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

/// Row in the memory of the caller. The address `data` needs no alignment.
struct RowInMemory {
  const void* data = nullptr;
  DType dtype = DType::float32;
  std::int64_t vocab = 0;
  const std::uint32_t* allowed = nullptr;  ///< bits in which 1 means that the token is allowed
                                           ///< (types.h, BitRows), or null if all tokens are
                                           ///< allowed
};

/// Rule by which the weight of a value is computed: octaves_of(x, scale), or
/// octaves_of_probability(x).
struct WeightRule {
  bool from_probs = false;
  float scale = 1;  ///< result of logit_scale(T), for logits only
};

/// Returns n and m of a value that a draw can return.
inline Octaves octaves_by(const WeightRule& rule, float x) {
  return rule.from_probs ? octaves_of_probability(x) : octaves_of(x, rule.scale);
}

/// Findings of a pass over a row. All members except `allowed` also cover banned ids.
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
  /// Writes the index of a row. For each of tiles_of(vocab) tiles, the index has the order_key of
  /// the tile's largest allowed value and the sum S of the tile's weights; a tile without an
  /// allowed token gets kEmptyTileKey and 0.
  ///
  /// Returns the first fault of the row, in the order NaN, +inf, a negative probability (these
  /// three even at banned ids), and no allowed token. After one of the first three faults, the keys
  /// and sums have no meaning.
  RowStatus (*index)(const RowInMemory& row, const WeightRule& rule, std::int32_t* keys,
                     std::uint64_t* sums);

  /// Returns the kTileSize values of a tile as float32, with -inf (0 for probabilities) for banned
  /// tokens and for positions beyond the end of the row. If no value differs from the row in
  /// memory, the result is a pointer into the row. Otherwise the result is `buffer`, which has
  /// kTileSize floats. The values are not checked, because `index` has checked them.
  const float* (*read)(const RowInMemory& row, const WeightRule& rule, std::int64_t tile,
                       float* buffer);

  /// Returns the sum of the weights v of the values >= low, for n values of one tile, with n <=
  /// kTileSize. `maximum` is the largest allowed value of the tile, which is from_order_key of the
  /// tile's key. This value is finite, and above 0 for probabilities. Precondition: no value is
  /// larger than `maximum`.
  std::uint64_t (*sum)(const float* x, std::size_t n, const WeightRule& rule, float maximum,
                       float low);

  /// Writes the weights v of n values, with 0 for values below `low`, and up to kTileSlack zeros
  /// after the n weights.
  void (*weigh)(const float* x, std::size_t n, const WeightRule& rule, float maximum, float low,
                std::uint64_t* out);
};

/// Returns the passes of a target that this machine has; CpuTarget::best stands for the best of
/// them.
const TilePasses& tile_passes_for(CpuTarget target);

/// Returns the passes of a target for which tile_passes_simd.cpp was compiled, or null.
const TilePasses* simd_tile_passes(CpuTarget target);

/// Passes that evaluate the definition value by value, in portable C++ without intrinsics.
extern const TilePasses kScalarTilePasses;

}  // namespace fairdraw::cpu
