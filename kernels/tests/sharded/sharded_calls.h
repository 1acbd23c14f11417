// Random boundaries and vocabulary sizes for calls of sharded sampling, on CPU and GPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "fairdraw/tile_index.h"
#include "harness/adapters/sharded.h"
#include "harness/inputs/dice.h"

namespace fairdraw::suites {

/// Returns the boundaries of 1, 2, 4 or 8 shards: shards of equal size, boundaries at ends of
/// tiles, or boundaries anywhere, with some empty shards.
inline std::vector<std::int64_t> random_boundaries(harness::Dice& dice, std::int64_t vocab) {
  const std::int64_t shards = dice.pick({1, 2, 2, 4, 8});
  std::vector<std::int64_t> boundaries = harness::equal_boundaries(vocab, static_cast<int>(shards));
  const std::uint64_t kind = dice.below(4);
  for (std::int64_t s = 1; s < shards && kind > 0; ++s) {
    auto at = static_cast<std::int64_t>(dice.below(static_cast<std::uint64_t>(vocab) + 1));
    if (kind == 1) at = std::min(vocab, at / kTileSize * kTileSize);
    if (kind == 2 && dice.once_in(2)) at = boundaries[static_cast<std::size_t>(s - 1)];
    boundaries[static_cast<std::size_t>(s)] = at;
  }
  std::sort(boundaries.begin(), boundaries.end());
  return boundaries;
}

inline std::string describe(const std::vector<std::int64_t>& boundaries) {
  std::string text;
  for (const std::int64_t boundary : boundaries) text += " " + std::to_string(boundary);
  return text;
}

/// Returns the size of a vocabulary: below one tile, a few tiles, or many tiles, for which
/// candidates may not suffice.
inline std::int64_t random_sharded_vocab(std::uint64_t number, harness::Dice& dice) {
  switch (number % 4) {
    case 0:
      return static_cast<std::int64_t>(1 + dice.below(400));
    case 1:
      return static_cast<std::int64_t>(256 * (1 + dice.below(12)) + dice.below(3) - 1);
    case 2:
      return static_cast<std::int64_t>(1 + dice.below(3000));
    default:
      return static_cast<std::int64_t>(1000 + dice.below(9000));
  }
}

}  // namespace fairdraw::suites
