// Draws of one row by proposals (common/proposals.h).
//
// After one prefix sum over the index, each proposal costs one read of its tile. A proposal
// survives if A, the sum of the weights of all larger values, is below the target. Bounds of A
// decide this, and are refined only as far as needed.
//   above  A tile whose largest value is not larger adds 0, any other at most its sum. If few
//          tokens have most of the mass, these bounds decide already.
//   tiles  Tiles are summed exactly, one after the other, until A is known to be below the target
//          or not. If a share u of a flat row's mass is not larger than the proposal, acceptance
//          takes (1 - p) / u of the tiles: a quarter on average for p = 0.9.
// Once a value is accepted, all larger values are accepted, too; once a value is rejected, all
// smaller values are rejected. Known decisions are used for all attempts and all samples of the
// row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/proposals.h"
#include "common/wide_integers.h"
#include "cpu/row_index.h"

namespace fairdraw::cpu {

class Proposer {
 public:
  /// Begins with a row that has been indexed, and of which min_p keeps the values >= `low`; without
  /// min_p, `low` is the smallest allowed value.
  void begin(const RowIndex& row, float low, float top_p);
  /// Begins with a row that has only been scanned, and indexes its hot tiles, which are the tiles
  /// with values >= `low`.
  void begin_scanned(const RowIndex& row, float low, float top_p);
  /// Uses survivors that are already known, which are the values >= threshold.
  void know_threshold(float threshold);

  /// Returns the first proposal that is accepted, or nothing if no attempt is accepted.
  std::optional<std::int32_t> draw(const RowIndex& row, const DrawWords& words);

 private:
  struct Tile {
    Segment segment;
    std::int32_t key;
    std::uint64_t sum;
    uint128_t end;  ///< inclusive prefix sum
  };

  void begin_empty(float low, float top_p);
  void add(const Segment& segment, std::int32_t key, std::uint64_t sum);
  uint128_t weight_of(std::size_t tile) const {
    return row_weight(tiles_[tile].sum, tiles_[tile].segment.shift);
  }
  std::size_t propose(const RowIndex& row, std::uint64_t word) const;
  bool accepts(const RowIndex& row, float x);
  bool is_among(const RowIndex& row, float x);
  uint128_t kept_by_min_p(const RowIndex& row) const;

  std::vector<Tile> tiles_;  ///< T_F, by id
  float low_ = 0;
  float top_p_ = 1;
  std::optional<uint128_t> target_;
  float accepted_ = 0;  ///< smallest value that is known to survive
  float rejected_ = 0;  ///< largest value that is known not to survive
};

}  // namespace fairdraw::cpu
