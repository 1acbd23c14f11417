// A row's draws by proposals (common/proposals.h).
//
// A proposal costs its tile, after one prefix sum over the index. Whether it survives is a question
// about A, the sum of the larger values, and is answered by bounds that meet where they must:
//   above  a tile whose largest value is not larger adds nothing, any other at most its sum. Where
//          few tokens have the mass that decides already.
//   tiles  one tile after the other is summed exactly, until A is known to be below the target or
//          not. Of a flat row a part u of whose mass is not larger than the proposal, (1 - p) / u
//          of the tiles accept it: a quarter on average for p = 0.9.
// What has been accepted accepts all larger values, what has been rejected rejects all smaller
// ones: of all attempts, and of all samples of the row.
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
  /// A row that is indexed, of which min_p keeps the values >= `low`; the smallest allowed without
  /// min_p.
  void begin(const RowIndex& row, float low, float top_p);
  /// A row that is scanned alone, and whose hot tiles are those of `low`: they are indexed.
  void begin_scanned(const RowIndex& row, float low, float top_p);
  /// The survivors are known: the values >= threshold.
  void know_threshold(float threshold);

  /// The first accepted proposal; none of all attempts is.
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
  float accepted_ = 0;  ///< the smallest value known to survive
  float rejected_ = 0;  ///< the largest known not to
};

}  // namespace fairdraw::cpu
