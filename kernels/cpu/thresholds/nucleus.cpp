#include "cpu/thresholds/nucleus.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "common/float_order.h"

namespace fairdraw::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargestFinite = std::numeric_limits<float>::max();
/// Inverse of the largest part of the values that may be listed; with more values, a second pass
/// measures the tiles instead.
constexpr std::size_t kShortestShare = 3;

/// Returns the weight of the tokens at the threshold that top_k did not keep.
uint128_t weight_of_cut_ties(const RowIndex& index, const TopSet& survivors) {
  uint128_t weight = 0;
  for (std::size_t i = survivors.tie_end(); i < index.size; ++i) {
    if (index.x[i] != survivors.low()) continue;
    const std::size_t tile = i / kTile;
    weight += row_weight(index.weight_in_tile(tile, survivors.low()), index.shifts[tile]);
  }
  return weight;
}

}  // namespace

void Nucleus::cut(KnownRow& row, float top_p, FilterOrder filter_order, float base) {
  RowIndex& index = row.index;
  const float low = row.survivors.low();
  // Only tokens that are tied with the maximum remain, and all of them are in every nucleus.
  if (low >= index.max) return;
  const bool joint = filter_order == FilterOrder::joint;
  if (row.survivors.on_list()) return cut_list(row, top_p, joint, base);
  // The nucleus is measured on all values >= `base` in the joint order, and on the survivors of
  // top_k in the other order.
  const float from = joint ? base : low;
  const Bracket guess = guess_.of_row(index, row.list, row.sample, top_p, from);
  if (guess.kind == BracketKind::listed && from <= index.smallest_allowed()) {
    index.need_sums();
  } else {
    measure_tiles(row, guess, from);
  }
  cut_at(row, guess, top_p, joint, from);
}

void Nucleus::cut_list(KnownRow& row, float top_p, bool joint, float base) {
  const uint128_t kept = row.survivors.weight(row.index, row.list);
  const uint128_t target = nucleus_target(top_p, joint ? row.index.weight_from(base) : kept);
  // If the filters apply in joint order, top_k may keep less mass than the nucleus needs; then
  // top_p drops nothing.
  if (kept < target) return;
  const float low = row.survivors.low();
  weigh_list(row, low);
  const float threshold = select_in_list(row, low, row.index.max, target);
  if (threshold <= low) return;
  row.survivors.keep_from(row.index, threshold);
  row.survivors.use_list(row.list, row.survivors.list_low());
}

RowStatus Nucleus::cut_unread(KnownRow& row, float top_p) {
  RowIndex& index = row.index;
  const float from = row.survivors.low();
  row.sample.take(index, from, kLargestFinite);
  if (row.sample.size == 0) {
    if (const RowStatus status = index.build(); status != RowStatus::ok) return status;
    cut(row, top_p, FilterOrder::top_k_first, from);
    return RowStatus::ok;
  }
  index.max = index.passes->range(row.sample.values.data(), row.sample.size).max;
  std::optional<Bracket> guess = guess_.of_even_row(index, row.sample, top_p, from);
  if (guess) {
    const RowStatus status = measure_tiles(row, *guess, from);
    if (status != RowStatus::ok) return status;
  } else {
    // A few tokens may have most of the mass; the index finds these tokens, which may suffice.
    if (const RowStatus status = index.build(); status != RowStatus::ok) return status;
    guess = guess_.of_uneven_row(index, row.list, row.sample, top_p, from);
    // The total is known, so a list of all values from the low end of the bracket up shows where
    // the nucleus ends. While this list is short, it costs less than weighing all values again.
    if (guess->kind == BracketKind::to_list &&
        row.list.collect(index, guess->low, kLargestFinite, index.size / kShortestShare)) {
      guess = {guess->low, index.max, BracketKind::listed};
    } else if (guess->kind != BracketKind::listed) {
      measure_tiles(row, *guess, from);
    }
  }
  cut_at(row, *guess, top_p, /*joint=*/false, from);
  return RowStatus::ok;
}

/// Cuts the survivors of a row whose tiles have been measured for a bracket.
void Nucleus::cut_at(KnownRow& row, const Bracket& guess, float top_p, bool joint, float from) {
  RowIndex& index = row.index;
  TopSet& survivors = row.survivors;
  const MeasuredBracket found = measured(row, guess);
  const uint128_t target =
      nucleus_target(top_p, found.total - (joint ? 0 : weight_of_cut_ties(index, survivors)));

  float threshold = guess.low;
  float list_low = guess.low;
  bool list_is_the_top = !guess.one_value() && guess.high >= index.max;
  bool guess_holds = false;
  if (found.above >= target) {  // the guessed bracket was too low
    list_low = next_above(guess.high);
    row.list.collect(index, list_low, kLargestFinite, index.size);
    list_is_the_top = true;
    weigh_list(row, list_low);
    threshold = select_in_list(row, list_low, index.max, target);
  } else if (found.above + found.inside < target && guess.low > from) {  // too high
    const float high = previous_below(guess.low);
    row.list.collect(index, from, high, index.size);
    list_is_the_top = false;
    weigh_list(row, from);
    threshold = select_in_list(row, from, high, target - found.above - found.inside);
  } else {
    guess_holds = true;
    if (!guess.one_value()) {
      threshold =
          select_in_list(row, guess.low, std::min(guess.high, index.max), target - found.above);
    }
  }
  // No value is dropped, and ties that top_k has cut stay cut.
  if (threshold <= survivors.low()) return;
  survivors.keep_from(index, threshold);
  if (list_is_the_top) {
    survivors.use_list(row.list, list_low);
    return;
  }
  survivors.use_row();
  if (!guess_holds) return;
  add_bracket_to_tiles(row, guess, threshold);
  survivors.use_tile_sums(above_.data());
}

/// Returns the weights that were measured for a bracket. The function weighs the list of the
/// bracket, except if the bracket has a single value, whose ties have already been weighed.
Nucleus::MeasuredBracket Nucleus::measured(const KnownRow& row, const Bracket& bracket) {
  MeasuredBracket found{};
  for (std::size_t tile = 0; tile < row.index.tiles; ++tile) {
    const int shift = row.index.shifts[tile];
    found.total += row_weight(row.index.sums[tile], shift);
    if (bracket.kind != BracketKind::listed) found.above += row_weight(above_[tile], shift);
    if (bracket.one_value()) found.inside += row_weight(ties_[tile], shift);
  }
  if (!bracket.one_value()) found.inside = weigh_list(row, bracket.low);
  return found;
}

/// Measures three things in one pass: the keys of all tiles, the weight of the values >= from, and
/// the weight above the bracket. The same pass lists the values of the bracket, or weighs them if
/// all are equal. Returns the status of the row, which is ok if the row was read before.
RowStatus Nucleus::measure_tiles(KnownRow& row, const Bracket& bracket, float from) {
  RowIndex& index = row.index;
  grow(index.keys, index.tiles);
  grow(index.sums, index.tiles);
  grow(above_, index.tiles);
  grow(run_begin_, index.tiles);
  // Two kinds of brackets list nothing. Their low end is out of reach, and the pass overwrites a
  // dummy array, because row.list may have the head.
  const bool lists = bracket.kind == BracketKind::to_list;
  float overwritten[kSlack];
  const BracketBounds bounds{from, lists ? bracket.low : kInfinity,
                             bracket.kind == BracketKind::listed ? kInfinity : bracket.high};
  const Measured found = index.bracket_passes->measure(
      index.x, index.size, index.rule, bounds,
      {index.keys.data(), index.sums.data(), above_.data(), run_begin_.data(),
       lists ? row.list.room_for(index.size) : overwritten});
  if (found.has_nan) return RowStatus::nan_input;
  if (const RowStatus status = index.use_keys(); status != RowStatus::ok) return status;
  index.has_sums = from <= index.smallest_allowed();
  if (lists) row.list.take(index, run_begin_.data(), found.listed);
  if (bracket.one_value()) weigh_ties(index, bracket.low);
  return RowStatus::ok;
}

/// Computes, tile by tile, the weight of the tokens that have a given value.
void Nucleus::weigh_ties(const RowIndex& index, float value) {
  grow(ties_, index.tiles);
  for (std::size_t tile = 0; tile < index.tiles; ++tile) {
    const float* x = index.x + tile * kTile;
    const std::size_t length = index.tile_length(tile);
    std::size_t tied = 0;
    if (index.keys[tile] >= order_key(value)) {
      tied = index.passes->count_at_least(x, length, value);
    }
    if (index.keys[tile] > order_key(value)) {
      tied -= index.passes->count_at_least(x, length, next_above(value));
    }
    ties_[tile] = tied == 0 ? 0 : tied * index.weight_in_tile(tile, value);
  }
}

// --- Selection -----------------------------------------------------------------------------------

/// Weighs the listed values >= low, so that select_in_list can be called, and returns the sum of
/// the weights.
uint128_t Nucleus::weigh_list(const KnownRow& row, float low) {
  const RowIndex& index = row.index;
  const ValueList& list = row.list;
  if (index.is_near(low)) {
    std::vector<std::uint64_t>& weights = list_weights_.near;
    reserve_with_slack(weights, list.size());
    const NearWeights near = near_weights_of(index);
    near.weigh(list.values(), list.size(), low, weights.data());
    list_weight_ = near.sum(list.values(), weights.data(), list.size(), low) << kRowBits;
    return list_weight_;
  }
  list_weights_.wide.clear();
  list_weight_ = 0;
  segments_.clear();
  if (!index.has_keys) {  // the list is a top set, so it contains the maximum of each tile that has
                          // a listed value
    list.add_segments(index, low, segments_);
  } else {
    for (std::size_t run = 0; run < list.runs().size(); ++run) {
      const auto length = static_cast<std::uint32_t>(list.run_length(run));
      const float maximum = from_order_key(index.keys[list.runs()[run].tile]);
      if (length == 0) continue;
      segments_.push_back({list.runs()[run].begin, length, index.shift_of(maximum), maximum});
    }
  }
  for (const Segment& segment : segments_) weigh_far(row, segment, low);
  return list_weight_;
}

/// Weighs the values >= low of a segment of the list in the row's unit.
void Nucleus::weigh_far(const KnownRow& row, const Segment& segment, float low) {
  const float* values = row.list.values() + segment.begin;
  std::uint64_t weights[kTile + kTileSlack];
  row.index.tile_passes->weigh(values, segment.length, row.index.rule, segment.maximum, low,
                               weights);
  for (std::size_t i = 0; i < segment.length; ++i) {
    if (!(values[i] >= low)) continue;
    list_weights_.wide.push_back({values[i], row_weight(weights[i], segment.shift)});
    list_weight_ += list_weights_.wide.back().weight;
  }
}

/// Returns the largest v in [low, high] such that the listed values >= v weigh at least `target`.
/// Precondition: the weights of the listed values >= `low` have been computed.
float Nucleus::select_in_list(const KnownRow& row, float low, float high, uint128_t target) {
  if (!row.index.is_near(low)) return nucleus_end(list_weights_.wide, low, high, target);
  const uint128_t unit = uint128_t{1} << kRowBits;  // near weights are multiples of this unit
  return nucleus_end(near_weights_of(row.index), row.list.values(), list_weights_.near.data(),
                     row.list.size(), low, high, (target + (unit - 1)) >> kRowBits,
                     list_weight_ >> kRowBits, scratch_);
}

/// Adds, tile by tile, the weights of the bracket's survivors to the weights above the bracket.
void Nucleus::add_bracket_to_tiles(const KnownRow& row, const Bracket& bracket, float threshold) {
  const RowIndex& index = row.index;
  if (bracket.one_value()) {
    for (std::size_t tile = 0; tile < index.tiles; ++tile) above_[tile] += ties_[tile];
    return;
  }
  const bool near = index.is_near(bracket.low);
  for (std::size_t tile = 0; tile < index.tiles; ++tile) {
    const std::size_t begin = row.list.runs()[tile].begin;
    const std::size_t length = row.list.run_length(tile);
    if (length == 0) continue;
    const float* values = row.list.values() + begin;
    // Near weights are copied from the weights of the list, which are relative to the maximum of
    // the row.
    above_[tile] +=
        near
            ? index.passes->sum_listed(values, list_weights_.near.data() + begin, length, threshold)
                  << (kRowBits - index.shifts[tile])
            : index.tile_passes->sum(values, length, index.rule, from_order_key(index.keys[tile]),
                                     threshold);
  }
}

}  // namespace fairdraw::cpu
