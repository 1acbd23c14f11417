// tile_index: which tiles of a row hold its mass, and where its largest values are. 12 bytes for
// 256 tokens, in one pass over the row, that merge with those of other parts of the row: of shards
// of a vocabulary, or of blocks of an LM head. All of `sample` can be answered from them and from
// the few tiles that matter.
//
// Definition. c = (float)(log2(e) / T) and y = x c is a logit in octaves, n the integer nearest to
// it (ties to even), m = 2^(y - n) 2^23 rounded to an integer, in [5931641, 11863282]. A tile is
// 256 consecutive token ids, 256 t to 256 t + 255; the last one of a row may have fewer. In it
//   key = order_key(M), M the largest allowed logit;          octave N = n of M;
//   S   = sum of v = floor(m 2^(32 - (N - n))) over the allowed tokens, an integer below 2^63.5.
// A row's octave E is the largest N. A tile counts W = S 2^(48 - gap) in it, gap = E - N, and
// nothing where gap > 48; Z, the sum of W, is below 2^124. So a tile's probability is W / Z, and
// sum 2^(x c) = Z 2^(E - 103). c is rounded, so that is sum exp(x / T) but for a factor that all
// tokens share, off by up to 2^-24 ln2 |y|: for log-probabilities take it out, in double, M being
// the row's largest logit: ln p(x) = (x - M) / T - (ln(Z 2^-103) - (M c - E) ln2).
// From probabilities m and n are the float's own significand of 24 bits and exponent, S is below
// 2^64, and sum p = Z 2^(E - 103).
//
// Error: relative to 2^(-d) the weight of a token d octaves below the row's maximum is off by at
// most 2^-22 + 2^-24 ln2 d + 2^(d - 48); of probabilities by the last of these alone.
//
// Keys are int32 in the order of the logits: the bits of the float, those without the sign negated
// where it is negative; -0 is +0. Everything is an integer: the same bits on every backend and
// instruction set, for any dtype that holds the same values.
//
// A part of a row must begin at an id that is a multiple of 256: tiles that are cut do not merge.
//
// Errors: tile_index() returns the codes of fairdraw/sample.h, and writes nothing then; its comment
// lists the statuses of rows.
//
// Definition: this comment; docs/decisions/tiles.md has the reasons, kernels/common/tile_weights.h
// the arithmetic.
#pragma once

#include <cstdint>
#include <limits>

#include "fairdraw/types.h"

namespace fairdraw {

/// Token ids of a tile.
inline constexpr int kTileSize = 256;

/// Key of a tile without an allowed token (nothing but -inf, banned ids, probabilities of 0): that
/// of -inf, smaller than all others. Its sum is 0.
inline constexpr std::int32_t kEmptyTileKey = -0x7f800000;

/// Tiles of a row.
constexpr std::int64_t tiles_of(std::int64_t vocab) { return (vocab + kTileSize - 1) / kTileSize; }

/// A matrix of one value per tile.
template <class T>
struct TileRows {
  T* data = nullptr;            ///< [rows, row_stride]; null: not given
  std::int64_t rows = 0;        ///< as many as rows of the input
  std::int64_t row_stride = 0;  ///< in values, >= tiles_of(vocab)

  /// True where there is a matrix.
  constexpr bool given() const { return data != nullptr; }
};

/// Contents of a row.
enum class TileInput : std::uint32_t {
  logits = 0,  ///< raw logits
  probs = 1,   ///< probabilities, finite and >= 0, in any scale
};

/// Rows to index.
struct TileIndexRequest {
  RowsView rows;                         ///< [rows, vocab], any dtype
  TileInput input = TileInput::logits;   ///< meaning of the values
  PerRequest<float> temperature = 1.0F;  ///< of logits: 0 or in [2^-126, 2^64]; scalar, or one a
                                         ///< row. 0 (greedy) weighs as 1 does
  BitRows<const std::uint32_t> allowed;  ///< optional, one row per row of values; bit 1: allowed
  View<const std::uint8_t> active;       ///< [rows]; optional; 0: padding
};

/// Destination of the index. A row whose status is not ok has nothing but empty tiles, an inactive
/// one is left untouched.
struct TileIndexResult {
  TileRows<std::int32_t> keys;   ///< [rows, tiles_of(vocab)], needed
  TileRows<std::uint64_t> sums;  ///< [rows, tiles_of(vocab)], needed
  View<RowStatus> statuses;      ///< [rows], optional
};

/// The index of each row. On an error (a field out of its range, an array of the wrong length)
/// nothing is written. Statuses of rows: inactive, invalid_temperature, nan_input, infinite_input,
/// negative_probability (values at banned ids count), no_allowed_token; the first that holds.
Error tile_index(const TileIndexRequest& request, const TileIndexResult& result,
                 const Execution& execution = {});

// --- Merging indexes -----------------------------------------------------------------------------

/// Returns N of a tile from its key: an integer, or -inf for an empty tile. For logits the
/// temperature must be the index's temperature and valid; for probabilities it has no meaning.
double tile_octave(std::int32_t key, TileInput input, float temperature = 1.0F) noexcept;

/// An unsigned integer of 128 bits.
struct TileTotal {
  std::uint64_t low = 0;   ///< bits 0 to 63
  std::uint64_t high = 0;  ///< bits 64 to 127
};

/// W of a tile in a row of octave `row_octave` (at least `octave`, else 0): sum 2^(48 - gap), or 0.
TileTotal tile_weight_in_row(std::uint64_t sum, double octave, double row_octave) noexcept;

/// A part of a row's index: the tiles of a shard, say.
struct TileIndexPart {
  View<const std::int32_t> keys;   ///< [tiles of the part]
  View<const std::uint64_t> sums;  ///< [tiles of the part]
};

/// Sum of a whole row: sum 2^(x c) (of exp(x / T): see above), or sum p, is
/// total * 2^(octave - 103).
struct TileIndexTotal {
  double octave = -std::numeric_limits<double>::infinity();  ///< E; -inf: no allowed token
  TileTotal total;                                           ///< Z
};

/// The total of the parts of one row, in any order; the temperature as for tile_octave.
/// `parts`: [parts], each of them [tiles of the part].
TileIndexTotal total_of_tiles(View<const TileIndexPart> parts, TileInput input,
                              float temperature = 1.0F) noexcept;

}  // namespace fairdraw
