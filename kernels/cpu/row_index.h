// What passes over one row of float32 tell of it: the maximum and those of groups of 32 values
// (`scan` of passes.h), or keys and sums of its tiles (tile_passes.h). Either is made once.
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

/// Room for n values; what is there stays.
template <class T>
void grow(std::vector<T>& values, std::size_t n) {
  if (values.size() < n) values.resize(n);
}

/// Consecutive values that are weighed relative to one maximum, and the shift that brings their
/// weights into the row's unit.
struct Segment {
  std::size_t begin;
  std::uint32_t length;
  int shift;
  float maximum;
};

/// The first position whose inclusive prefix of weights passes `rest`, which is below the sum of a
/// segment with that shift, in the row's unit.
std::size_t position_in(const std::uint64_t* weights, uint128_t rest, int shift);

/// A row and what is known of it. `max` and `octave` are known after `scan` and `build`; arrays are
/// by block, group or tile, and valid where their flag says so.
struct RowIndex {
  /// The instruction set of the rows to come.
  void use(CpuTarget target);
  /// A new row of n >= 1 values, of which nothing is known.
  void begin(const float* values, std::size_t n, const TileRule& weights);

  /// Weighs all values: keys and sums of tiles.
  RowStatus build();
  /// Finds the maxima alone, at an eighth of the cost. `low`: the smallest value that counts.
  RowStatus scan(float low);
  /// Takes the keys that a pass has written: the row's maximum, and its tiles' shifts.
  RowStatus use_keys();
  void need_groups();
  void need_sums();

  float smallest_allowed() const;
  double octave_of(float value) const { return octaves_by(rule, value).whole; }
  /// Whether all values >= low are near (indexed_row.h). Octaves do not fall as values grow.
  bool is_near(float low) const {
    return octave - octave_of(low) <= static_cast<double>(kTileBits);
  }
  int shift_of(float maximum) const { return row_shift(octave, octave_of(maximum)); }

  std::size_t tile_length(std::size_t tile) const;
  /// A tile that has an allowed token; near: relative to the row's maximum.
  Segment segment_of_tile(std::size_t tile, bool near) const;
  /// The token of a tile at `rest` of its weights, in the row's unit, below the tile's sum.
  std::size_t token_in(const Segment& tile, uint128_t rest) const;
  /// Weight v of one token of a value in a tile whose key is known.
  std::uint64_t weight_in_tile(std::size_t tile, float value) const;
  /// Weight of all allowed tokens, and of those >= low, in the row's unit.
  uint128_t total();
  uint128_t weight_from(float low);

  /// Lists the tiles that may hold a value >= low in `hot_tiles`; returns the share of the row's
  /// groups that do, of its tiles where those alone are known.
  double find_hot_tiles(float low);
  /// Calls use(tile, whether it may have a value >= low), in order.
  template <class Use>
  void for_each_tile(float low, const Use& use);
  std::int32_t first_at_maximum();

  const Passes* passes = nullptr;
  const TilePasses* tile_passes = nullptr;
  const BracketPasses* bracket_passes = nullptr;

  const float* x = nullptr;
  std::size_t size = 0;
  std::size_t tiles = 0;
  std::size_t blocks = 0;  ///< of `scan`
  TileRule rule;
  float max = 0;
  double octave = 0;

  bool has_groups = false;
  bool has_keys = false;
  bool has_sums = false;  ///< of all allowed tokens
  std::vector<float> group_max;
  std::vector<std::int32_t> keys;
  std::vector<int> shifts;  ///< -1 of an empty tile
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
