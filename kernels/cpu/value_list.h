// Values of a row that are in a range, tile by tile and in the order of ids.
#pragma once

#include <cstddef>
#include <vector>

#include "cpu/row_index.h"
#include "cpu/selection.h"

namespace fairdraw::cpu {

/// Returns the length up to which a list is faster than passes over the whole row.
inline std::size_t list_limit(std::size_t n) { return n / 4 < kShortRow ? kShortRow : n / 4; }

/// Returns the weights of values relative to the maximum of the row.
inline NearWeights near_weights_of(const RowIndex& row) {
  return {row.passes, row.tile_passes, &row.rule, row.max};
}

class ValueList {
 public:
  /// Values of one tile that are in the list.
  struct Run {
    std::size_t tile;
    std::size_t begin;  ///< position in the list of the first value of the run
  };

  /// Lists the values of the row that are in [low, high]. If more than `limit` values are in the
  /// range, the function returns false, and there is no list.
  bool collect(RowIndex& row, float low, float high, std::size_t limit);
  /// Takes over `size` values that a pass has written to `room_for`; run_begin has the position in
  /// the list of the first value of each tile.
  void take(const RowIndex& row, const std::uint32_t* run_begin, std::size_t size);
  float* room_for(std::size_t n);

  const float* values() const { return values_.data(); }
  std::size_t size() const { return size_; }
  const std::vector<Run>& runs() const { return runs_; }
  std::size_t run_length(std::size_t run) const;
  /// Returns the position in the row of the value that is at `position` in the list. Precondition:
  /// the list contains all values >= low.
  std::size_t row_position(const RowIndex& row, std::size_t position, float low) const;

  /// Appends the segments of a list of the row's largest values; the list must contain at least all
  /// values >= low.
  void add_segments(const RowIndex& row, float low, std::vector<Segment>& segments) const;

 private:
  std::size_t size_ = 0;
  std::vector<float> values_;
  std::vector<Run> runs_;
};

}  // namespace fairdraw::cpu
