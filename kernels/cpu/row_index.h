// Results of passes over one row of float32 values: the maximum and the maxima of groups of 32
// values (`scan` of passes.h), or the keys and sums of the row's tiles (tile_passes.h). Each result
// is computed at most once for a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/float_order.h"
#include "common/tile_weights.h"
#include "cpu/passes/bracket_passes.h"
#include "cpu/passes/passes.h"
#include "cpu/passes/tile_passes.h"
#include "fairdraw/types.h"

namespace fairdraw::cpu {

inline constexpr auto kTile = static_cast<std::size_t>(kTileSize);
static_assert(kBlock == 2 * kTile);

/// Makes room for n values, and keeps the values that are already there.
template <class T>
void grow(std::vector<T>& values, std::size_t n) {
  if (values.size() < n) values.resize(n);
}

/// Consecutive values whose weights are relative to the same maximum, with the shift from these
/// weights to the row's unit.
struct Segment {
  std::size_t begin;
  std::uint32_t length;
  int shift;
  float maximum;
};

/// Returns the first position such that the sum of the weights up to and including this position
/// exceeds `rest`. The value `rest` is in the row's unit and below the sum of the segment, and
/// `shift` is the shift of the segment.
std::size_t position_in(const std::uint64_t* weights, uint128_t rest, int shift);

/// Row with the results of passes over it. The members `max` and `octave` are known after `scan` or
/// `build`. Each array has one element per block, group or tile, and is valid if its flag is set.
struct RowIndex {
  /// Selects the instruction set with which the following rows are processed.
  void use(CpuTarget target);
  /// Begins a new row of n values, where n is at least 1, for which no results are known yet.
  void begin(const float* values, std::size_t n, const WeightRule& weights);

  /// Computes the weights of all values, and writes the keys and sums of the tiles.
  RowStatus build();
  /// Finds only the maxima of groups, which costs an eighth of build(). The status is
  /// no_allowed_token if all values are below `low`.
  RowStatus scan(float low);
  /// Computes the maximum of the row and the shifts of its tiles from keys that a pass has written.
  RowStatus use_keys();
  void need_groups();
  void need_sums();

  float smallest_allowed() const;
  double octave_of(float value) const { return octaves_by(rule, value).whole; }
  /// Returns whether all values >= low are near the maximum (indexed_row.h). The function tests
  /// only `low`, because octaves do not decrease as values grow.
  bool is_near(float low) const {
    return octave - octave_of(low) <= static_cast<double>(kTileBits);
  }
  int shift_of(float maximum) const { return row_shift(octave, octave_of(maximum)); }

  std::size_t tile_length(std::size_t tile) const;
  /// Returns the segment of a tile that has an allowed token; `near` says whether weights are
  /// relative to the maximum of the row.
  Segment segment_of_tile(std::size_t tile, bool near) const;
  /// Returns the token at the position `rest` in the weights of a tile; `rest` is in the row's unit
  /// and below the sum of the tile.
  std::size_t token_in(const Segment& tile, uint128_t rest) const;
  /// Returns the weight v that a token with a given value has in a tile whose key is known.
  std::uint64_t weight_in_tile(std::size_t tile, float value) const;
  /// Returns the weight of all allowed tokens in the row's unit; weight_from returns that of the
  /// tokens with values >= low.
  uint128_t total();
  uint128_t weight_from(float low);

  /// Lists in `hot_tiles` the tiles that may have a value >= low. Returns the part of the row's
  /// groups that have such a value, or the part of its tiles if only the tiles are known.
  double find_hot_tiles(float low);
  /// Calls use(tile, hot) for each tile in order, where `hot` says whether the tile may have a
  /// value >= low.
  template <class Use>
  void for_each_tile(float low, const Use& use);
  std::int32_t first_at_maximum();

  const Passes* passes = nullptr;
  const TilePasses* tile_passes = nullptr;
  const BracketPasses* bracket_passes = nullptr;

  const float* x = nullptr;
  std::size_t size = 0;
  std::size_t tiles = 0;
  std::size_t blocks = 0;  ///< blocks of `scan`
  WeightRule rule;
  float max = 0;
  double octave = 0;

  bool has_groups = false;
  bool has_keys = false;
  bool has_sums = false;  ///< whether sums of all allowed tokens are known
  std::vector<float> group_max;
  std::vector<std::int32_t> keys;
  std::vector<int> shifts;  ///< shift of each tile to the row's unit, or -1 for an empty tile
  std::vector<std::uint64_t> sums;
  std::vector<std::uint32_t> hot_tiles;
  std::size_t hot_tiles_size = 0;

 private:
  void find_shifts();
  std::size_t find_hot_blocks(float low);

  std::vector<std::uint32_t> hot_blocks_;
};

template <class Use>
void RowIndex::for_each_tile(float low, const Use& use) {
  if (has_keys) {
    const std::int32_t low_key = order_key(low);
    for (std::size_t tile = 0; tile < tiles; ++tile) use(tile, keys[tile] >= low_key);
    return;
  }
  const std::size_t hot = find_hot_blocks(low);
  std::size_t next = 0;
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    while (next < hot && hot_blocks_[next] < tile / 2) ++next;
    use(tile, next < hot && hot_blocks_[next] == tile / 2);
  }
}

}  // namespace fairdraw::cpu
