// Rows for tests of tiles, from a number, and their index by the definition.
//
// Rows are those of harness/inputs/random_rows.h, then made hard for tiles: octaves that step from
// tile to tile, tiles without an allowed token, bad values at banned ids, temperatures at both ends
// of their range and beside the one at which float arithmetic ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fairdraw/tile_index.h"
#include "harness/inputs/dice.h"

namespace fairdraw::suites {

/// One row as a caller holds it.
struct RandomTileRow {
  std::uint64_t number = 0;  ///< what it was made from, to name it in a failure
  TileInput input = TileInput::logits;
  DType dtype = DType::float32;
  float temperature = 1.0F;
  std::vector<float> values;         ///< exactly values of the dtype
  std::vector<std::uint8_t> memory;  ///< the row, `shift` bytes into it; it ends with the row
  std::size_t shift = 0;
  std::vector<std::uint32_t> allowed;  ///< packed, ceil(vocab / 32) words; or empty: all are

  const void* data() const { return memory.data() + shift; }
  std::int64_t vocab() const { return static_cast<std::int64_t>(values.size()); }
  bool is_allowed(std::size_t id) const {
    return allowed.empty() || ((allowed[id / 32] >> (id % 32)) & 1U) != 0;
  }
};

RandomTileRow random_tile_row(std::uint64_t number, std::int64_t vocab);

/// A float32 row of given logits.
RandomTileRow tile_row_of(std::vector<float> logits, float temperature);

/// Writes `values` to the row's memory, `shift` bytes into it.
void store(RandomTileRow& row, std::size_t shift);

/// What tile_index has to say of a row: keys and sums mean something where the status is ok.
struct ExpectedIndex {
  RowStatus status = RowStatus::ok;
  std::vector<std::int32_t> keys;
  std::vector<std::uint64_t> sums;
};

/// By the definition, value by value (common/tile_weights.h).
ExpectedIndex expected_index(const RandomTileRow& row);

/// v of each value of a tile: kTileSize of them, 0 for what is banned or beyond the row. Of a row
/// whose status is ok.
std::vector<std::uint64_t> expected_weights(const RandomTileRow& row, std::int64_t tile);

/// A sentence that names the row.
std::string describe(const RandomTileRow& row);

}  // namespace fairdraw::suites
