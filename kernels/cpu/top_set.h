// Tokens that a row's filters keep: the values above a threshold and the first ones equal to it.
// Their sums and draws use prefix sums over segments: tiles of the row, or of the list of its
// largest values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/wide_integers.h"
#include "cpu/row_index.h"
#include "cpu/value_list.h"

namespace fairdraw::cpu {

/// The kept tokens of one row. All calls must pass the row given to `begin`, and its list.
class TopSet {
 public:
  /// Begins a new row, with all allowed tokens.
  void begin(const RowIndex& row);

  float low() const { return low_; }
  std::size_t tie_end() const { return tie_end_; }
  bool keeps(const RowIndex& row, std::size_t position) const {
    return row.x[position] > low_ || (row.x[position] == low_ && position < tie_end_);
  }

  /// Keeps the values >= low, including all equal to it.
  void keep_from(const RowIndex& row, float low);
  /// Keeps only the first `ties_kept` values equal to low(), which must be at least one.
  void cut_ties(const RowIndex& row, const ValueList& list, std::size_t ties_kept);

  /// The following functions select the domain of later sums and draws: the row; the row with known
  /// sums of its tiles; a list of all its values >= list_low.
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
  /// Calls use(begin, length, low) for a segment's values before the position where ties are cut,
  /// and for those after it.
  template <class Use>
  void for_both_sides(const Segment& segment, const Use& use) const;

  float low_ = 0;
  std::size_t tie_end_ = 0;  ///< position in the row at which ties are cut; the row's size if no
                             ///< ties are cut
  std::size_t tie_end_in_domain_ = 0;
  bool on_list_ = false;
  float list_low_ = 0;
  const std::uint64_t* tile_sums_ = nullptr;

  // Inclusive prefix sums by segment; empty if unknown. If there are no segments, the prefix sums
  // are by tile.
  std::vector<Segment> segments_;
  std::vector<uint128_t> prefix_;
};

}  // namespace fairdraw::cpu
