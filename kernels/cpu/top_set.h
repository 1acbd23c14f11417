// Tokens that the filters keep in a row: the values above a threshold, and the first of the values
// equal to it. The sums and draws use prefix sums over segments, which are tiles of the row, or
// parts of the list of its largest values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/wide_integers.h"
#include "cpu/row_index.h"
#include "cpu/value_list.h"

namespace fairdraw::cpu {

/// Tokens of one row that the filters keep. All calls must pass the row that was given to `begin`,
/// and the list of this row.
class TopSet {
 public:
  /// Begins a new row, with all allowed tokens.
  void begin(const RowIndex& row);

  float low() const { return low_; }
  std::size_t tie_end() const { return tie_end_; }
  bool keeps(const RowIndex& row, std::size_t position) const {
    return row.x[position] > low_ || (row.x[position] == low_ && position < tie_end_);
  }

  /// Keeps the values >= low, including all values equal to `low`.
  void keep_from(const RowIndex& row, float low);
  /// Keeps only the first `ties_kept` of the values equal to low(); there must be at least one.
  void cut_ties(const RowIndex& row, const ValueList& list, std::size_t ties_kept);

  /// The following functions select the domain of later sums and draws: the row, the row with known
  /// sums of its tiles, or a list of all its values >= list_low.
  void use_row();
  void use_tile_sums(const std::uint64_t* sums);
  void use_list(const ValueList& list, float list_low);
  bool on_list() const { return on_list_; }
  float list_low() const { return list_low_; }

  std::size_t count(const RowIndex& row, const ValueList& list) const;
  std::size_t count_at_least(const RowIndex& row, const ValueList& list, float low) const;
  uint128_t weight(RowIndex& row, const ValueList& list);
  std::int32_t draw(RowIndex& row, const ValueList& list, std::uint64_t word);

 private:
  const float* domain(const RowIndex& row, const ValueList& list) const {
    return on_list_ ? list.values() : row.x;
  }
  std::size_t domain_size(const RowIndex& row, const ValueList& list) const {
    return on_list_ ? list.size() : row.size;
  }
  std::size_t row_position(const RowIndex& row, const ValueList& list, std::size_t position) const {
    return on_list_ ? list.row_position(row, position, list_low_) : position;
  }
  void build_prefix(RowIndex& row, const ValueList& list);
  void add_tiles(RowIndex& row);
  /// Calls use(begin, length, low) first for the values of a segment before the position where ties
  /// are cut, and then for the values after it.
  template <class Use>
  void for_both_sides(const Segment& segment, const Use& use) const;

  float low_ = 0;
  std::size_t tie_end_ = 0;  ///< position in the row at which ties are cut, or the size of the row
                             ///< if no ties are cut
  std::size_t tie_end_in_domain_ = 0;
  bool on_list_ = false;
  float list_low_ = 0;
  const std::uint64_t* tile_sums_ = nullptr;

  // Inclusive prefix sums with one element per segment, empty if they are not known. Without
  // segments, the prefix sums have one element per tile.
  std::vector<Segment> segments_;
  std::vector<uint128_t> prefix_;
};

}  // namespace fairdraw::cpu
