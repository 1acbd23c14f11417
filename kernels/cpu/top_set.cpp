#include "cpu/top_set.h"

#include <algorithm>
#include <iterator>

#include "common/float_order.h"

namespace fairdraw::cpu {

void TopSet::begin(const RowIndex& row) {
  keep_from(row, row.smallest_allowed());
  use_row();
}

void TopSet::keep_from(const RowIndex& row, float low) {
  low_ = low;
  tie_end_ = row.size;
}

void TopSet::cut_ties(const RowIndex& row, const ValueList& list, std::size_t ties_kept) {
  const float* values = domain(row, list);
  std::size_t position = 0;
  for (std::size_t seen = 0; seen < ties_kept; ++position) seen += values[position] == low_ ? 1 : 0;
  tie_end_in_domain_ = position;
  tie_end_ = row_position(row, list, position - 1) + 1;
}

void TopSet::use_row() {
  on_list_ = false;
  tie_end_in_domain_ = tie_end_;
  tile_sums_ = nullptr;
  prefix_.clear();
}

void TopSet::use_tile_sums(const std::uint64_t* sums) {
  use_row();
  tile_sums_ = sums;
}

void TopSet::use_list(const ValueList& list, float list_low) {
  on_list_ = true;
  list_low_ = list_low;
  tie_end_in_domain_ = list.size();
  prefix_.clear();
}

std::size_t TopSet::count_at_least(const RowIndex& row, const ValueList& list, float low) const {
  return row.passes->count_at_least(domain(row, list), domain_size(row, list), low);
}

std::size_t TopSet::count(const RowIndex& row, const ValueList& list) const {
  const float* x = domain(row, list);
  return row.passes->count_at_least(x, tie_end_in_domain_, low_) +
         row.passes->count_at_least(x + tie_end_in_domain_,
                                    domain_size(row, list) - tie_end_in_domain_, next_above(low_));
}

uint128_t TopSet::weight(RowIndex& row, const ValueList& list) {
  build_prefix(row, list);
  return prefix_.back();
}

template <class Use>
void TopSet::for_both_sides(const Segment& segment, const Use& use) const {
  const std::size_t cut =
      std::clamp(tie_end_in_domain_, segment.begin, segment.begin + segment.length);
  use(segment.begin, cut - segment.begin, low_);
  const std::size_t after = segment.begin + segment.length - cut;
  if (after > 0) use(cut, after, next_above(low_));
}

/// Adds the tiles that have a survivor, or all tiles if the maxima of the tiles are not known.
void TopSet::add_tiles(RowIndex& row) {
  const bool near = row.is_near(low_);
  if (!near && !row.has_keys) row.need_sums();
  const std::int32_t low_key = order_key(low_);
  for (std::size_t tile = 0; tile < row.tiles; ++tile) {
    if (row.has_keys && row.keys[tile] < low_key) continue;
    segments_.push_back(row.segment_of_tile(tile, near && !row.has_keys));
  }
}

void TopSet::build_prefix(RowIndex& row, const ValueList& list) {
  if (!prefix_.empty()) return;
  segments_.clear();
  uint128_t before = 0;
  const bool all = low_ == row.smallest_allowed() && tie_end_ == row.size;
  const std::uint64_t* sums =
      tile_sums_ == nullptr && all && row.has_sums ? row.sums.data() : tile_sums_;
  if (!on_list_ && sums != nullptr) {
    prefix_.resize(row.tiles);
    for (std::size_t tile = 0; tile < row.tiles; ++tile) {
      prefix_[tile] = before += row_weight(sums[tile], row.shifts[tile]);
    }
    return;
  }
  if (on_list_) {
    list.add_segments(row, low_, segments_);
  } else {
    add_tiles(row);
  }
  const float* values = domain(row, list);
  for (const Segment& segment : segments_) {
    std::uint64_t sum = 0;
    for_both_sides(segment, [&](std::size_t begin, std::size_t length, float low) {
      sum += row.tile_passes->sum(values + begin, length, row.rule, segment.maximum, low);
    });
    prefix_.push_back(before += row_weight(sum, segment.shift));
  }
}

std::int32_t TopSet::draw(RowIndex& row, const ValueList& list, std::uint64_t word) {
  build_prefix(row, list);
  const uint128_t place = multiply_high(word, prefix_.back());
  const auto found = std::upper_bound(prefix_.begin(), prefix_.end(), place);
  const auto index = static_cast<std::size_t>(found - prefix_.begin());
  const Segment segment =
      segments_.empty() ? row.segment_of_tile(index, /*near=*/false) : segments_[index];
  const uint128_t before = found == prefix_.begin() ? uint128_t{0} : *std::prev(found);
  const float* values = domain(row, list);
  std::uint64_t weights[kTile + kTileSlack];
  for_both_sides(segment, [&](std::size_t begin, std::size_t length, float low) {
    row.tile_passes->weigh(values + begin, length, row.rule, segment.maximum, low,
                           weights + (begin - segment.begin));
  });
  const std::size_t position = position_in(weights, place - before, segment.shift);
  return static_cast<std::int32_t>(row_position(row, list, segment.begin + position));
}

}  // namespace fairdraw::cpu
