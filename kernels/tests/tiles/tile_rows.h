// Rows for tests of tiles, each derived from a number, and their indexes by the definition.
//
// Rows come from harness/inputs/random_rows.h and are then made hard for tiles: octaves that change
// from tile to tile, tiles without an allowed token, invalid values at banned ids, temperatures at
// both ends of their range and near the temperature at which float arithmetic is no longer used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fairdraw/tile_index.h"
#include "harness/inputs/dice.h"

namespace fairdraw::suites {

/// A row in the form that it has in a caller's memory.
struct RandomTileRow {
  std::uint64_t number = 0;  ///< number from which the row was derived, for messages
  TileInput input = TileInput::logits;
  DType dtype = DType::float32;
  float temperature = 1.0F;
  std::vector<float> values;         ///< values that the dtype represents exactly
  std::vector<std::uint8_t> memory;  ///< bytes of the row, which begin `shift` bytes into the
                                     ///< memory and end with it
  std::size_t shift = 0;
  std::vector<std::uint32_t> allowed;  ///< packed bitmask of ceil(vocab / 32) words; empty: all
                                       ///< tokens are allowed

  const void* data() const { return memory.data() + shift; }
  std::int64_t vocab() const { return static_cast<std::int64_t>(values.size()); }
  bool is_allowed(std::size_t id) const {
    return allowed.empty() || ((allowed[id / 32] >> (id % 32)) & 1U) != 0;
  }
};

RandomTileRow random_tile_row(std::uint64_t number, std::int64_t vocab);

/// Returns a float32 row with the given logits.
RandomTileRow tile_row_of(std::vector<float> logits, float temperature);

/// Writes `values` to the row's memory, `shift` bytes from its begin.
void store(RandomTileRow& row, std::size_t shift);

/// The results that tile_index must give for a row; keys and sums are valid if the status is ok.
struct ExpectedIndex {
  RowStatus status = RowStatus::ok;
  std::vector<std::int32_t> keys;
  std::vector<std::uint64_t> sums;
};

/// Computes the index by the definition, value by value (common/tile_weights.h).
ExpectedIndex expected_index(const RandomTileRow& row);

/// Returns the integer v of each of the kTileSize values of a tile; 0 for banned tokens and for
/// positions beyond the row. Precondition: the row's status is ok.
std::vector<std::uint64_t> expected_weights(const RandomTileRow& row, std::int64_t tile);

/// Returns a sentence that names the row.
std::string describe(const RandomTileRow& row);

}  // namespace fairdraw::suites
