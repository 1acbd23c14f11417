// tile_index tells which tiles of a row hold its mass, and where the row's largest values are. The
// index takes 12 bytes per 256 tokens and one pass over the row. Indexes of parts of a row can be
// merged: parts are shards of a vocabulary, or blocks of an LM head. Every question that `sample`
// answers can be answered from the index and from the few tiles that matter.
//
// Definition: c = (float)(log2(e) / T), and y = x c is a logit in octaves. n is the integer nearest
// to y (ties to even), and m = 2^(y - n) 2^23 rounded to an integer, in [5931641, 11863282]. A tile
// is 256 consecutive token ids, 256 t to 256 t + 255; the last tile of a row may have fewer ids.
// Each tile has a key, an octave N and a sum S.
//   key = order_key(M), M the largest allowed logit;          octave N = n of M;
//   S   = sum of v = floor(m 2^(32 - (N - n))) over the allowed tokens, an integer below 2^63.5.
// A row's octave E is the largest N. A tile counts W = S 2^(48 - gap) in the row, with gap = E - N,
// and nothing if gap > 48. Z, the sum of W, is below 2^124. So a tile's probability is W / Z, and
// sum 2^(x c) = Z 2^(E - 103). Because c is rounded, that sum is sum exp(x / T) except for a factor
// that all tokens share, off by up to 2^-24 ln2 |y|. Log-probabilities need this factor removed, in
// double, M being the row's largest logit: ln p(x) = (x - M) / T - (ln(Z 2^-103) - (M c - E) ln2).
// For probabilities, m is the float's own significand of 24 bits and n its exponent, S is below
// 2^64, and sum p = Z 2^(E - 103).
//
// Error: the weight of a token d octaves below the row's maximum, relative to 2^(-d), is off by at
// most 2^-22 + 2^-24 ln2 d + 2^(d - 48). For probabilities the error is at most 2^(d - 48).
//
// Keys are int32 in the order of the logits: a key has the bits of the float, and for a negative
// float the bits without the sign, negated. -0 counts as +0. All results are integers, and their
// bits are the same on every backend and instruction set, for any dtype that holds the same values.
//
// A part of a row must begin at an id that is a multiple of 256, because tiles that are cut cannot
// be merged.
//
// Errors: tile_index() returns the codes of fairdraw/sample.h, and writes nothing then; its comment
// lists the statuses of rows.
//
// Definition: this comment; docs/decisions/tiles.md has the reasons.
#pragma once

#include <cstdint>
#include <limits>

#include "fairdraw/types.h"

namespace fairdraw {

/// Number of token ids in a tile.
inline constexpr int kTileSize = 256;

/// Key of a tile without an allowed token (the tile has nothing but -inf, banned ids and
/// probabilities of 0). An empty tile has the key of -inf, which is smaller than all others. Its
/// sum is 0.
inline constexpr std::int32_t kEmptyTileKey = -0x7f800000;

/// Tiles of a row.
constexpr std::int64_t tiles_of(std::int64_t vocab) { return (vocab + kTileSize - 1) / kTileSize; }

/// A matrix that has one value per tile.
template <class T>
struct TileRows {
  T* data = nullptr;            ///< [rows, row_stride]; first element of the matrix; null if it is
                                ///< not given
  std::int64_t rows = 0;        ///< number of rows, the same as of the input
  std::int64_t row_stride = 0;  ///< distance of two rows in values, >= tiles_of(vocab)

  /// Returns whether the caller gave a matrix.
  constexpr bool given() const { return data != nullptr; }
};

/// Contents of a row.
enum class TileInput : std::uint32_t {
  logits = 0,  ///< raw logits
  probs = 1,   ///< probabilities, finite and >= 0, which need not sum to 1
};

/// Rows to index.
struct TileIndexRequest {
  RowsView rows;                         ///< [rows, vocab]; values of any dtype
  TileInput input = TileInput::logits;   ///< kind of the values: logits or probabilities
  PerRequest<float> temperature = 1.0F;  ///< scalar or [rows]; temperature of logits, 0 or in
                                         ///< [2^-126, 2^64]; 0 (greedy) gives the weights of 1
  BitRows<const std::uint32_t> allowed;  ///< optional, one row per row of values; bit 1: the token
                                         ///< is allowed
  View<const std::uint8_t> active;       ///< [rows]; optional; 0: padding
};

/// Arrays in which the index is written. A row whose status is not ok has empty tiles alone, and an
/// inactive row is left untouched.
struct TileIndexResult {
  TileRows<std::int32_t> keys;   ///< [rows, tiles_of(vocab)]; needed
  TileRows<std::uint64_t> sums;  ///< [rows, tiles_of(vocab)]; needed
  View<RowStatus> statuses;      ///< [rows], optional
};

/// Computes the index of each row. If the call returns an error (a field out of its range, an array
/// of the wrong length), nothing is written. A row has the first of these statuses that holds:
/// inactive, invalid_temperature, nan_input, infinite_input, negative_probability (values at banned
/// ids count too), no_allowed_token.
Error tile_index(const TileIndexRequest& request, const TileIndexResult& result,
                 const Execution& execution = {});

// --- Merging indexes -----------------------------------------------------------------------------

/// Returns the octave N of a tile from its key: an integer, or -inf for an empty tile. For logits,
/// the temperature must be valid and the same as that of the index; for probabilities, the
/// temperature has no meaning.
double tile_octave(std::int32_t key, TileInput input, float temperature = 1.0F) noexcept;

/// An unsigned integer of 128 bits.
struct TileTotal {
  std::uint64_t low = 0;   ///< bits 0 to 63
  std::uint64_t high = 0;  ///< bits 64 to 127
};

/// Returns the weight W of a tile in a row of octave `row_octave`: sum 2^(48 - gap), or 0 if gap >
/// 48. `row_octave` must be at least `octave`; otherwise the result is 0.
TileTotal tile_weight_in_row(std::uint64_t sum, double octave, double row_octave) noexcept;

/// A part of a row's index, for example the tiles of a shard.
struct TileIndexPart {
  View<const std::int32_t> keys;   ///< [tiles]; keys of the part's tiles
  View<const std::uint64_t> sums;  ///< [tiles]; sums of the part's tiles
};

/// Sum of a whole row: total * 2^(octave - 103) is sum 2^(x c) for logits (the head of this file
/// relates it to exp(x / T)), and sum p for probabilities.
struct TileIndexTotal {
  /// octave E of the row; -inf: the row has no allowed token
  double octave = -std::numeric_limits<double>::infinity();
  TileTotal total;  ///< Z
};

/// Returns the total of the parts of one row, given in any order; the temperature is as for
/// tile_octave.
/// `parts`: [parts]; each part has [tiles] keys and sums.
TileIndexTotal total_of_tiles(View<const TileIndexPart> parts, TileInput input,
                              float temperature = 1.0F) noexcept;

}  // namespace fairdraw
